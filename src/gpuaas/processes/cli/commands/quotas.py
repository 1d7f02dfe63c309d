"""Quotas: how many GPUs of each model an organisation and its projects may hold at once."""

from gpuaas.client import quotas
from gpuaas.client.api import decode
from gpuaas.contracts.http.allocations import QuotaSet, QuotaView
from gpuaas.processes.cli import names
from gpuaas.processes.cli.declare import ORG, YES, Argument, Group, number
from gpuaas.processes.cli.failures import Exit, Stop, UsageError
from gpuaas.processes.cli.output import Column
from gpuaas.processes.cli.run import Run

GROUP = Group("quotas", "How many GPUs of each model may be held at once.")
_MODEL = Argument("model", help="The GPU model, as in `gpuaas skus list`: H200.")
_PROJECT = Argument("--project", help="Of this project. Default: of the whole organisation.", completes="project")
COLUMNS: list[Column[QuotaView]] = [
    ("gpu", lambda quota: quota.gpu_model),
    ("of", lambda quota: "organisation" if quota.project_id is None else f"project {quota.project_id}"),
    ("used", lambda quota: quota.used),
    ("at most", lambda quota: quota.gpus),
    ("set by", lambda quota: quota.set_by),
    ("id", lambda quota: quota.id or ""),
]


@GROUP.command("list", ORG, summary="List the quotas of an organisation and what is used of them.")
def quota_list(run: Run, *, org: str | None) -> None:
    call = quotas.quota_list(names.org(run, org))
    body = run.api.send_raw(call)
    if run.out.json:
        run.out.raw(body)
        return
    run.out.table(COLUMNS, decode(call, body).quotas, empty="Nothing is sold here yet: there are no SKUs.")


@GROUP.command(
    "set",
    _MODEL,
    Argument("gpus", help="How many may be held at once; 0: none."),
    ORG,
    _PROJECT,
    summary="Set a quota. For operators; it holds instead of the policy quota.gpus.",
    examples=["gpuaas quotas set H200 128 --org acme", "gpuaas quotas set H200 16 --org acme --project research"],
)
def quota_set(run: Run, *, model: str, gpus: str, org: str | None, project: str | None) -> None:
    most = 0 if gpus == "0" else _count(gpus)
    org_id = names.org(run, org)
    project_id = None if project is None else names.project(run, project, str(org_id))
    run.show(quotas.quota_set(org_id, QuotaSet(gpu_model=model, project_id=project_id, gpus=most)), COLUMNS)


def _count(text: str) -> int:
    try:
        return number(text)
    except Exception as error:
        raise UsageError(f"{text!r} is not a number of GPUs.", "Write 16, or 0 for none.") from error


@GROUP.command(
    "unset",
    _MODEL,
    ORG,
    _PROJECT,
    YES,
    summary="Take a quota away: the policy quota.gpus holds again. For operators.",
)
def quota_unset(run: Run, *, model: str, org: str | None, project: str | None, yes: bool) -> None:
    org_id = names.org(run, org)
    project_id = None if project is None else names.project(run, project, str(org_id))
    found = [
        quota.id
        for quota in run.api.send(quotas.quota_list(org_id)).quotas
        if quota.id is not None and (quota.gpu_model, quota.project_id) == (model, project_id)
    ]
    if not found:
        raise Stop(f"No quota of {model} is set there.", "See them with: gpuaas quotas list", Exit.MISSING)
    run.confirm(f"Take the quota of {model} away?", yes=yes)
    run.done(quotas.quota_unset(org_id, found[0]), f"The policy quota.gpus holds for {model} again.")
