"""Repairs of faults in liteparse 2.17 and pypdfium2 5.14.

Each repair names its fault; tests/unit/test_pdf_repairs.py shows with the bare library that the fault still exists.
"""
