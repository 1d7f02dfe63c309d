"""Runs: one flow under way for one subject. The steps are in `gpuaas.flows`; here is what is known of each run."""
