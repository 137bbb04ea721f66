"""Storage that may fail for a moment: what is tried again, how patiently, and what never is.

Reading bytes is kept apart from making sense of them. So an error of the first kind may go away,
and an error of the second (a damaged file) never does.
"""

import errno
import logging
from collections.abc import Callable
from typing import TypeVar

from privcore.exceptions import TransientError
from workers.patience import Patience

Result = TypeVar("Result")

PATIENCE = Patience(attempts=7, first=0.05, longest=5.0, spread=1.0)
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
_FINAL_ERRNO = {errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, errno.ENOSPC, errno.EROFS}
_REFUSED = ("ACCESS_DENIED", "NO_SUCH_BUCKET", "INVALID_ACCESS_KEY", "SIGNATURE", "HTTP status 403")
_THROTTLED = ("SLOW_DOWN", "SlowDown", "THROTTL", "Throttl", "HTTP status 429", "HTTP status 503")
_log = logging.getLogger(__name__)


def patiently(action: Callable[[], Result], what: str) -> Result:
    """Return what `action` returns, trying again where storage may only be away.

    A storage that says it is throttling is given four times as long.

    Args:
        action: reads or writes; harmless to repeat.
        what: the path, for the error; never a URI, which could hold a secret.

    Raises:
        TransientError: it failed as often as it is tried.
        OSError: trying again cannot help: there is no such file, or access is refused.
    """

    def again(error: Exception) -> float:
        if not isinstance(error, OSError) or not may_go_away(error):
            return 0.0
        _log.info("Storage failed at %s (%s): trying again.", what, type(error).__name__)
        return 4.0 if any(word in str(error) for word in _THROTTLED) else 1.0

    try:
        return PATIENCE.retry(action, again)
    except OSError as error:
        if not may_go_away(error):
            raise
        kind = type(error).__name__
    raise TransientError(
        f"Storage failed {PATIENCE.attempts} times at {what} ({kind}): try again later."
    )


def may_go_away(error: OSError) -> bool:
    """Return whether the same call may succeed later.

    Not where a file is missing, access refused, the disk full, or the path none.
    """
    final = isinstance(error, _FINAL) or error.errno in _FINAL_ERRNO
    return not final and not any(word in str(error) for word in _REFUSED)
