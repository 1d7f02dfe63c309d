"""Valid requests for the operations on data keys."""

from tests.every.examples import REASON, plain

plain("data_key_list")
plain("data_key_rotate", body={"reason": REASON})
