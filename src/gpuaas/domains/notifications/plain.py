"""Text from outside, made safe to show to people: one line, nothing unseen, nothing that turns text around.

What is written for HTML is escaped where it is written; this is for what no escaping helps against."""

import re

# Controls (CR and LF among them: they would end a header), line separators, and what changes the direction of text.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+")
_LONE = re.compile("[\ud800-\udfff]")
SHOWN = "\ufffd"


def plain(text: object, limit: int = 200) -> str:
    clean = _UNSEEN.sub(SHOWN, _LONE.sub(SHOWN, str(text))).strip()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
