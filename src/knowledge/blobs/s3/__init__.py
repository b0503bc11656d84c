"""Originals in an S3 bucket; needs the extra `cluster`."""
