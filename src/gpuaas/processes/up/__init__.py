"""`gpuaas up`: the whole product on one machine, in the foreground of one terminal."""
