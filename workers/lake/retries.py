"""Storage that may fail for a moment: what is tried again, how patiently, and what never is.

Reading bytes is kept apart from making sense of them. So an error of the first kind may go away,
and an error of the second (a damaged file) never does.
"""

import errno
import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from privcore.exceptions import TransientError

Result = TypeVar("Result")

ATTEMPTS = 7
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0  # seconds
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_FINAL_ERRNO = {errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.ENOSPC, errno.EROFS}
_REFUSED = ("ACCESS_DENIED", "NO_SUCH_BUCKET", "INVALID_ACCESS_KEY", "SIGNATURE", "HTTP status 403")
_THROTTLED = ("SLOW_DOWN", "SlowDown", "THROTTL", "Throttl", "HTTP status 429", "HTTP status 503")
_log = logging.getLogger(__name__)


def patiently(action: Callable[[], Result], what: str) -> Result:
    """Return what `action` returns, trying again where storage may only be away.

    Waits double from 0.1 to 10 seconds, each shortened at random so that many workers do not come
    back at once; a storage that says it is throttling is given four times as long.

    Args:
        action: reads or writes; harmless to repeat.
        what: the path, for the error; never a URI, which could hold a secret.

    Raises:
        TransientError: it failed `ATTEMPTS` times.
        OSError: trying again cannot help: there is no such file, or access is refused.
    """
    for attempt in range(ATTEMPTS):
        try:
            return action()
        except OSError as error:
            if not may_go_away(error):
                raise
            kind, text = type(error).__name__, str(error)
        if attempt + 1 < ATTEMPTS:
            patience = 4.0 if any(word in text for word in _THROTTLED) else 1.0
            longest = min(_LONGEST_WAIT, _FIRST_WAIT * patience * 2.0**attempt)
            _log.info("Storage failed at %s (%s): trying again.", what, kind)
            time.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311  # no secret, no figure
    raise TransientError(
        f"Storage failed {ATTEMPTS} times at {what} ({kind}): try again later."
    ) from None


def may_go_away(error: OSError) -> bool:
    """Whether the same call may succeed later.

    Not where a file is missing, access refused, the disk full, or the path none.
    """
    final = isinstance(error, _FINAL) or error.errno in _FINAL_ERRNO
    return not final and not any(word in str(error) for word in _REFUSED)
