"""Policy: typed thresholds with overrides by organisation and project, and guardrails that hold for all below."""
