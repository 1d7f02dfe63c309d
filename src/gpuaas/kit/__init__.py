"""Words with no business in them: ids, clock, errors, paging, log. Imports nothing of ours."""
