"""`gpuaas agent`: what runs on a GPU host. It pulls signed orders from one host, runs them, tells what it observes."""
