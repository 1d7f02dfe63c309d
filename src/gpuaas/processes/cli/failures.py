"""What a user reads when a command fails, and the exit code a script reads. The codes are stable (docs/cli.md)."""

from enum import IntEnum
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from gpuaas.client.errors import ApiError

ADVICE = {
    "credential_missing": "Run: gpuaas login",
    "credential_invalid": "Run: gpuaas login",
    "credential_expired": "Run: gpuaas login",
    "credential_revoked": "Run: gpuaas login",
    "org_missing": "See yours with: gpuaas orgs list",
    "project_missing": "See them with: gpuaas projects list",
    "member_missing": "See them with: gpuaas members list",
    "invitation_missing": "See them with: gpuaas invitations list",
    "service_account_missing": "See them with: gpuaas service-accounts list",
    "service_account_key_missing": "See them with: gpuaas service-accounts keys list",
    "operation_unknown": "Operations are listed at /api/docs; '*' allows all.",
    "ssh_key_missing": "See yours with: gpuaas keys list",
    "policy_key_missing": "See all with: gpuaas policy list",
    "policy_guardrail": "See who set it with: gpuaas policy explain",
    "dead_letter_missing": "See them with: gpuaas ops dead-letters list",
    "user_missing": "Find people with: gpuaas ops users list --email ADDRESS",
    "node_missing": "See them with: gpuaas nodes list",
    "sku_missing": "See them with: gpuaas skus list",
    "slot_missing": "See them with: gpuaas nodes slots",
    "task_missing": "See them with: gpuaas nodes tasks",
    "certificate_missing": "See them with: gpuaas ops certificates list",
    "allocation_missing": "See them with: gpuaas allocations list",
    "certificate_of_release_missing": "See them with: gpuaas certificates list",
    "capacity_missing": "Say --queue to wait for it, or see what else there is: gpuaas skus list",
    "quota_exceeded": "See it with: gpuaas quotas list",
    "ssh_key_required": "Add one: gpuaas keys add ~/.ssh/id_ed25519.pub",
    "permission_denied": "",  # the refusal itself says who has it
    "balance_too_low": "See it with: gpuaas billing balance",
    "budget_spent": "See them with: gpuaas billing budgets list",
    "budget_missing": "See them with: gpuaas billing budgets list",
    "balance_empty": "See what comes next with: gpuaas billing standing",
    "money_hold_missing": "See them with: gpuaas billing holds",
    "adjustment_missing": "See them with: gpuaas billing adjustments list",
    "ledger_transaction_missing": "See them with: gpuaas billing ledger",
    "flow_missing": "See them with: gpuaas ops flows list",
    "operation_not_in_allow_list": "An admin can add it: gpuaas service-accounts allow-list add ACCOUNT OPERATION",
    "not_from_the_api": "Check the URL: gpuaas context list",
}


class Exit(IntEnum):
    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_LOGGED_IN = 3
    DENIED = 4
    MISSING = 5
    CONFLICT = 6
    LIMITED = 7
    UNREACHABLE = 8
    INTERRUPTED = 130


class Stop(Exception):
    """A command that cannot go on: what happened, what to do, and with which code it ends."""

    def __init__(self, message: str, advice: str = "", code: Exit = Exit.FAILURE) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice
        self.code = code


class UsageError(Stop):
    """The command line is wrong; nothing was sent."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message, advice, Exit.USAGE)


_BY_STATUS = {
    401: Exit.NOT_LOGGED_IN,
    403: Exit.DENIED,
    404: Exit.MISSING,
    409: Exit.CONFLICT,
    429: Exit.LIMITED,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}


def report(error: BaseException, stream: TextIO) -> Exit:
    """Say it, and return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        print("\nStopped.", file=stream)
        return Exit.INTERRUPTED
    if isinstance(error, Stop):
        _say(stream, error.message, [], error.advice, "")
        return error.code
    return _report_client(error, stream)


def _report_client(error: BaseException, stream: TextIO) -> Exit:
    from gpuaas.client.errors import ApiError, ClientError, NotLoggedIn, Unreachable

    if isinstance(error, ApiError):
        message = error.message
        told = [f"{detail.field}: {detail.reason}" for detail in error.details if detail.field]
        details = [line for line in told if line.partition(": ")[2] not in message]
        _say(stream, message, details, _advice(error), error.correlation_id)
        return _BY_STATUS.get(error.status, Exit.FAILURE)
    if isinstance(error, NotLoggedIn):
        _say(stream, str(error), [], "Run: gpuaas login", error.correlation_id)
        return Exit.NOT_LOGGED_IN
    if isinstance(error, Unreachable):
        _say(stream, str(error), [], "Is it running, and is the URL right? See: gpuaas context list", "")
        return Exit.UNREACHABLE
    if isinstance(error, ClientError):
        _say(stream, str(error), [], "", error.correlation_id)
        return Exit.FAILURE
    _say(stream, f"This should not have happened: {type(error).__name__}: {error}", [], "Try again with --debug.", "")
    return Exit.FAILURE


def _advice(error: "ApiError") -> str:
    """What to do: our own command for it, or what the catalogue says after its first sentence."""
    from gpuaas.contracts.error_codes import CATALOGUE, Code

    if error.retry_after is not None:
        return f"Try again in {error.retry_after} s."
    if error.code in ADVICE:
        return ADVICE[error.code]
    if error.code not in set(Code):
        return ""
    _, _, what_to_do = CATALOGUE[Code(error.code)][1].partition(". ")
    return "" if what_to_do in error.message else what_to_do


def _say(stream: TextIO, message: str, details: list[str], advice: str, correlation_id: str) -> None:
    from gpuaas.processes.cli.text import clean

    lines = [f"error: {clean(message)}", *(f"  {clean(detail)}" for detail in details)]
    if advice:
        lines.append(f"  {clean(advice)}")
    if correlation_id:
        lines.append(f"  correlation id: {clean(correlation_id)}")
    print("\n".join(lines), file=stream)
