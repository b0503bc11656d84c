"""Originals: the bytes of documents as they came, by their SHA-256, in a folder or in an S3 bucket."""
