"""A parser whose module opens a descriptor with a high number on import, as the fork server may have one."""

from __future__ import annotations

import errno
import os
import resource

from knowledge.extract.base import Extraction, Facts, PageText, Source

HIGH = 3000

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, HIGH + 1)), hard))
os.dup2(os.open(os.devnull, os.O_RDONLY), HIGH)


def extract(source: Source) -> Extraction:
    try:
        os.fstat(HIGH)
        text = "it is open"
    except OSError as error:
        text = errno.errorcode[error.errno or 0]
    return Extraction(Facts("txt"), iter([PageText(text, 1)]))
