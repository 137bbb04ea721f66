"""Prefect's automations from a file: created where they are missing, updated by name.

Prefect's own command makes a second automation of the same name, and wants a notification block's
id where people know its name.
"""

import pathlib
from typing import Any

import prefect
import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.schemas.automations import AutomationCore
from prefect.exceptions import ObjectNotFound
from pydantic import ValidationError

from privcore.exceptions import TerminalError
from workers.plain_files import open_plain

_NEEDS_BLOCK = "send-notification"
_MOST = 1 << 20
"""Bytes of a file that are read."""


def _is_automation(given: object) -> bool:
    """Return whether an entry of the list has a list of actions, each with named fields."""
    actions = given.get("actions", []) if isinstance(given, dict) else None
    return isinstance(actions, list) and all(isinstance(one, dict) for one in actions)


def read_automations(path: pathlib.Path) -> list[dict[str, Any]]:
    """Return the automations of a file, unchecked.

    Raises:
        TerminalError: there is no such file, or it is no list of automations.
    """
    try:
        with open_plain(path) as file:
            text = file.read(_MOST + 1)
        if len(text) > _MOST:
            raise TerminalError(f"{path} has over {_MOST:,} bytes: it is no list of automations.")
        content = yaml.safe_load(text)
    except OSError as error:
        raise TerminalError(f"{path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise TerminalError(f"{path} is not valid YAML: {' '.join(str(error).split())}.") from None
    listed = content.get("automations") if isinstance(content, dict) else None
    if not isinstance(listed, list) or not all(map(_is_automation, listed)):
        raise TerminalError(f"{path} has no list of automations with lists of actions: write one.")
    return listed


def apply_automations(path: pathlib.Path, *, block: str | None) -> list[str]:
    """Create or update every automation of a file; returns one line for each.

    Notifications go to `block` (`type/name`); without one those actions are left out, and an
    automation with no other action still shows each firing in Prefect's event feed.

    Raises:
        TerminalError: the file, the block or an automation is not valid.
    """
    lines = []
    with prefect.get_client(sync_client=True) as client:
        block_id = find_block(client, block) if block else None
        for content in read_automations(path):
            automation = _automation(content, block_id, path)
            if not automation.actions:
                lines.append(f"left out {automation.name}: it only notifies, so it needs --block")
                continue
            present = client.read_automations_by_name(automation.name)
            if present:
                client.update_automation(present[0].id, automation)
                lines.append(f"updated {automation.name}")
            else:
                client.create_automation(automation)
                lines.append(f"created {automation.name}")
    return lines


def _automation(
    content: dict[str, Any], block_id: str | None, path: pathlib.Path
) -> AutomationCore:
    actions = [
        action | {"block_document_id": block_id} if action.get("type") == _NEEDS_BLOCK else action
        for action in content.get("actions", [])
        if block_id or action.get("type") != _NEEDS_BLOCK
    ]
    try:
        return AutomationCore.model_validate(content | {"actions": actions})
    except ValidationError as error:
        problem: Any = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise TerminalError(
            f"The automation {content.get('name')!r} of {path} is not valid at {where}: "
            f"{problem['msg']}."
        ) from None


def find_block(client: SyncPrefectClient, block: str) -> str:
    """Return the id of a block that is named as `type/name`.

    Raises:
        TerminalError: Prefect has no such block.
    """
    kind, _, name = block.partition("/")
    try:
        return str(client.read_block_document_by_name(name, kind).id)
    except ObjectNotFound:
        raise TerminalError(
            f"Prefect has no block {block!r}: write it as type/name, as prefect block ls shows it."
        ) from None
