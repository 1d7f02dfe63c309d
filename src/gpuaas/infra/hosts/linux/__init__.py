"""The host the agent really runs on: hardware from sysfs and NVML, real accounts, faults from the kernel's log.

Always holds: no shell is ever built, every program is an argument list with a time limit; a verb looks at what is there
before it acts, and says what it cannot prove. Everything is read below one root directory, so a recorded host is read
exactly as a real one."""
