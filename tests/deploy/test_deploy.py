"""deploy/ against the code that it names, without a server."""

import datetime as dt
import importlib
import pathlib
import re
import uuid
from typing import Any

import pytest
import yaml
from prefect.events.schemas.automations import AutomationCore
from prefect.flows import Flow
from prefect.server.events.schemas.automations import EventTrigger
from prefect.server.events.schemas.events import ReceivedEvent, Resource

from flows.notify.events import Kind
from flows.notify.incidents import Stage

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFECT = yaml.safe_load((ROOT / "deploy" / "prefect.yaml").read_text())
AUTOMATIONS = [
    automation
    for file in ("automations.yaml", "notifications.yaml")
    for automation in yaml.safe_load((ROOT / "deploy" / file).read_text())["automations"]
]


def flow_of(deployment: dict[str, Any]) -> Flow[Any, Any]:
    path, _, name = deployment["entrypoint"].partition(":")
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    found: Flow[Any, Any] = getattr(module, name)
    return found


def test_the_operations_page_names_every_deployment_and_no_other():
    page = (ROOT / "docs" / "how-to" / "nightly-service.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([a-z-]+/[a-z-]+)` \|", page, re.MULTILINE)
    made = {f"{flow_of(one).name}/{one['name']}" for one in PREFECT["deployments"]}
    assert sorted(told) == sorted(made)


def test_the_file_names_the_prefect_that_is_installed():
    import prefect  # noqa: PLC0415

    assert PREFECT["prefect-version"] == prefect.__version__


@pytest.mark.parametrize("content", AUTOMATIONS, ids=lambda one: str(one["name"]))
def test_every_automation_is_one_that_prefect_takes(content):
    block = "00000000-0000-4000-8000-000000000000"
    actions = [
        action | {"block_document_id": block} if "block_document_id" in action else action
        for action in content["actions"]
    ]
    automation = AutomationCore.model_validate(content | {"actions": actions})
    assert automation.actions
    known = {str(kind) for kind in Kind}
    named = {name for name in content["trigger"]["expect"] if name.startswith("privaudit.")}
    assert named <= known


def test_every_event_has_an_automation():
    waited = {name for one in AUTOMATIONS for name in one["trigger"]["expect"]}
    assert {str(kind) for kind in Kind} <= waited
    stages = [
        one["trigger"]["match"]["privaudit.stage"]
        for one in AUTOMATIONS
        if Kind.VIOLATED in one["trigger"]["expect"]
    ]
    assert stages == [[stage for stage in Stage if stage.notifies], Stage.GOES_ON]
    # Nobody is notified of an acknowledged violation: that is what it was acknowledged for.
    assert Stage.KNOWN not in {*stages[0], stages[1]}


@pytest.mark.parametrize("stage", list(Stage))
def test_prefect_tells_each_stage_of_a_violation_once(stage):
    """By one automation what is new, by one what goes on, by none what people know."""
    resource = {"prefect.resource.id": "privaudit.model.ads", "privaudit.stage": str(stage)}
    event = ReceivedEvent(
        occurred=dt.datetime.now(dt.UTC),
        event=str(Kind.VIOLATED),
        resource=Resource.model_validate(resource),
        id=uuid.uuid4(),
    )
    notifying = [one for one in AUTOMATIONS if one["actions"][0]["type"] == "send-notification"]
    triggers = {one["name"]: EventTrigger.model_validate(one["trigger"]) for one in notifying}
    heard = [
        name for name, one in triggers.items() if one.covers(event) and one.expects(event.event)
    ]
    if stage.notifies:
        assert heard == ["privaudit violated"]
    else:
        assert heard == ["privaudit still violated"] * (stage is Stage.GOES_ON)


def test_no_example_runs_an_action_that_a_tag_alone_names():
    """Who may move the tag had code run beside the registry's token."""
    texts = (file.read_text("utf-8") for file in (ROOT / "deploy").rglob("*.yml"))
    used = [one for text in texts for one in re.findall(r"uses: (\S+)", text)]
    assert used
    assert all(re.search("@[0-9a-f]{40}$", one) for one in used)
