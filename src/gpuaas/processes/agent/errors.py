"""The one failure of `gpuaas agent` that a person reads."""


class AgentError(Exception):
    """Why the agent cannot run: one clear line."""
