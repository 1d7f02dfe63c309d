"""`python -m gpuaas` is `gpuaas`."""

from gpuaas.processes.cli.entry import main

if __name__ == "__main__":
    main()
