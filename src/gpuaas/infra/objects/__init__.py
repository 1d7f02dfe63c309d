"""Objects on local disk or in S3."""
