"""The API: people, programs and (later) agents speak with this one."""
