"""Valid requests for the operations on notifications and mail."""

from tests.every.examples import Example, Stage, example, plain
from tests.every.notification_world import put_email, put_link, put_notification
from tests.every.world import Person

plain("notification_count")
plain("notification_preference_list")
plain("notification_preference_set", body={"kind": "allocation.idle", "email": "never"})


def _asker(stage: Stage) -> Person:
    return stage.caller.person or stage.setting.people["nobody"]


@example
async def notification_list(stage: Stage) -> Example:
    link_id = await put_link(stage.setting, _asker(stage))
    await put_notification(stage.setting, _asker(stage), link_id=link_id)
    return Example()


@example
async def notification_read(stage: Stage) -> Example:
    return Example(path={"notification_id": await put_notification(stage.setting, _asker(stage))})


@example
async def notification_read_all(stage: Stage) -> Example:
    await put_notification(stage.setting, _asker(stage))
    return Example()


@example
async def email_list(stage: Stage) -> Example:
    await put_email(stage.setting, stage.setting.people["owner"])
    return Example(query={"state": "failed"})


@example
async def email_retry(stage: Stage) -> Example:
    return Example(path={"email_id": await put_email(stage.setting, stage.setting.people["owner"])})
