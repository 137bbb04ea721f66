"""Every module's tests: in a file of its name at the same place, or in the file listed here."""

import pathlib
import re

import pytest

from tests.test_architecture import PACKAGES, ROOT, modules

TESTS = ROOT / "tests"
# A test file, and the modules without a test file of their name whose tests are in it.
ELSEWHERE = {
    "workers/sources/tables/test_day_tables.py": (
        "workers.looks.hashed_kinds workers.sources.tables.table_days"
    ),
    "workers/labels/test_columns.py": "workers.labels.parquet",
    "workers/sources/tables/test_iceberg.py": "workers.sources.tables.iceberg_metadata",
    "workers/sources/tables/test_table_files.py": "workers.sources.tables.delta_log",
    "privcore/attacks/test_tallies.py": "privcore.attacks.counts",
    "privcore/attacks/test_query_reconstruction.py": "privcore.attacks.query_adversary",
    "privcore/lower_bounds/test_fdp.py": (
        "privcore.guarantees.families privcore.lower_bounds.kernels"
    ),
    "privcore/lower_bounds/test_betting.py": "privcore.lower_bounds.question",
    "privcore/lower_bounds/test_imagined.py": "privcore.lower_bounds.imagined_tables",
    "privcore/lower_bounds/test_segment_bounds.py": "privcore.lower_bounds.false_discovery",
    "privcore/lower_bounds/test_verdicts.py": "privcore.lower_bounds.evidence",
    "privcore/mechanisms/test_noisy_max.py": "privcore.mechanisms.parameter_checks",
    "privcore/mechanisms/test_protected_table.py": "privcore.mechanisms.threshold_queries",
    "privcore/upper_bounds/test_attack_success.py": "privcore.guarantees.relations",
    "workers/audit/test_secrets.py": "workers.sources.secrets",
    "workers/audit/test_bad_inputs.py": "workers.sources.source",
    "workers/audit/test_proving.py": "workers.audit.scanned_night",
    "workers/audit/test_run.py": "workers.audit.record workers.plan workers.audit.request",
    "workers/audit/test_verify.py": "workers.warehouse.record_digest",
    "workers/looks/test_listed.py": "workers.looks.look",
    "workers/lake/formats/test_onnx.py": "workers.lake.formats.onnx_session",
    "workers/lake/formats/test_formats.py": (
        "workers.lake.formats.catboost workers.lake.formats.lightgbm workers.lake.formats.xgboost"
    ),
    "workers/lake/test_output_correction.py": "workers.lake.checkpoints",
    "workers/sources/checkpoints/test_in_place.py": (
        "workers.sources.checkpoints.label_places workers.sources.checkpoints.checkpoint_source"
    ),
    "flows/commands/test_locate.py": "flows.commands.verify",
    "flows/publication/test_publishing.py": "flows.commands.handover",
    "workers/warehouse/test_store.py": (
        "workers.warehouse.schema workers.warehouse.table_row workers.warehouse.tables"
    ),
    "workers/test_contained.py": "workers.contained_child",
    "workers/warehouse/test_views.py": "workers.warehouse.sql",
    "security/test_bounded_bytes.py": "workers.lake.limits",
    "flows/test_settings.py": "flows.commands.operate",
    "flows/test_cli.py": "flows.commands.options flows.failures",
    "flows/commands/test_model_checks.py": "workers.audit.rehearsal",
    "flows/commands/test_warehouse.py": "flows.run.upkeep",
    "flows/learn/test_demo.py": "workers.datasets.flights",
    "flows/learn/test_explain.py": "flows.commands.learn",
    "flows/report/test_hostile_rows.py": "flows.files",
    "flows/report/test_report.py": (
        "flows.report.sentences flows.report.history flows.report.pages flows.report.plots "
        "flows.report.site flows.report.report_rows flows.report.templating"
    ),
    "flows/notify/test_acknowledged.py": "workers.warehouse.acknowledgements",
    "flows/run/test_backfill.py": "flows.progress",
    "flows/run/test_start.py": ("flows.run.runs flows.run.audit_requests"),
    "flows/run/test_nightly.py": "flows.run.auditing",
    "workers/test_executors.py": "flows.run.night_plan",
    "flows/test_memorization.py": "flows.commands.memorization",
    "flows/study/test_exam.py": "flows.study.exam_worlds",
    "flows/study/test_studies.py": (
        "flows.commands.study flows.study.criteo flows.study.randomized_response"
    ),
    "flows/study/test_study_bounds.py": "flows.study.bounds flows.study.tables",
    "flows/study/test_study_marginals.py": "flows.study.marginals",
    "flows/study/test_study_reidentification.py": "flows.study.reidentification",
    "flows/study/test_study_relaxations.py": "flows.study.relaxations",
    "flows/study/test_study_images.py": "flows.study.images",
    "flows/study/test_study_text.py": "flows.study.text",
    "flows/study/test_study_secrets.py": "flows.study.secrets",
}


def dotted(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_has_a_test_file_of_its_name_or_is_said_to_be_tested_elsewhere(package):
    elsewhere = {module for listed in ELSEWHERE.values() for module in listed.split()}
    of_its_name = {
        dotted(path)
        for path in modules(package)
        if (TESTS / path.relative_to(ROOT)).with_name(f"test_{path.name}").exists()
    }
    known = {dotted(path) for path in modules(package) if path.stem != "__init__"}
    listed = {module for module in elsewhere if module.startswith(f"{package}.")}
    assert known - of_its_name - listed == set(), "give it a test file, or name one in ELSEWHERE"
    assert listed - known == set(), "no such module"
    assert listed & of_its_name == set(), "it has a test file of its name"


def test_what_is_said_to_hold_the_tests_is_there_once():
    listed = [module for listed in ELSEWHERE.values() for module in listed.split()]
    assert len(listed) == len(set(listed))
    for file in ELSEWHERE:
        assert re.search(r"^def test_", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
