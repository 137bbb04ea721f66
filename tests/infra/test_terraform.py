"""infra/terraform: well-formed, and its roles may do what is listed and nothing else."""

import fnmatch
import json
import os
import pathlib
import shutil
import subprocess

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.support.object_store import object_store

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "infra" / "terraform"
PROVIDERS = pathlib.Path(os.environ.get("PRIVAUDIT_TERRAFORM_PROVIDERS", "/opt/tf-plugins"))
needs_terraform = pytest.mark.skipif(
    shutil.which("terraform") is None, reason="terraform is not installed"
)
needs_provider = pytest.mark.skipif(
    not PROVIDERS.is_dir(), reason=f"no AWS provider for terraform in {PROVIDERS}"
)
VALUES = {
    "lake_bucket": "the-lake",
    "audit_bucket": "the-audits",
    "oidc_provider_arn": "arn:aws:iam::123456789012:oidc-provider/example",
    "oidc_issuer": "example",
    "reader_principals": ["arn:aws:iam::123456789012:root"],
}


def terraform(folder, *arguments):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return subprocess.run(
        ["terraform", *arguments], cwd=folder, env=kept | {"CHECKPOINT_DISABLE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@needs_terraform
def test_terraform_would_format_it_so(tmp_path):
    assert terraform(FOLDER, "fmt", "-check", "-recursive", "-diff").stdout == ""
    (tmp_path / "main.tf").write_text('locals {\na="b"\n}\n')
    assert terraform(tmp_path, "fmt", "-check").returncode != 0


@pytest.fixture(scope="module")
def cloud():
    with object_store() as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def applied(tmp_path_factory, cloud):
    """Apply the plans to a stand-in for AWS, with Amazon's provider, and return the folder."""
    folder = tmp_path_factory.mktemp("terraform") / "root"
    shutil.copytree(FOLDER, folder)
    endpoints = "".join(f'    {name} = "{cloud}"\n' for name in ("iam", "kms", "s3", "sts"))
    (folder / "override.tf").write_text(
        'provider "aws" {\n  region = "us-east-1"\n  access_key = "test"\n  secret_key = "test"\n'
        "  skip_credentials_validation = true\n  skip_metadata_api_check = true\n"
        "  skip_requesting_account_id = true\n  s3_use_path_style = true\n"
        f"  endpoints {{\n{endpoints}  }}\n}}\n"
    )
    (folder / "terraform.tfvars.json").write_text(json.dumps(VALUES))
    for command in (
        ["init", "-input=false", f"-plugin-dir={PROVIDERS}"],
        ["apply", "-input=false", "-auto-approve"],
    ):
        ran = terraform(folder, *command, "-no-color")
        assert ran.returncode == 0, ran.stderr
    return folder


def client(cloud, service):
    return boto3.client(
        service, endpoint_url=cloud, region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106  # a stand-in asks for some
    )  # fmt: skip


def listed(part):
    return {part} if isinstance(part, str) else set(part)


def allows(policy, action, resource, prefix=None):
    """Return whether a policy of Allow statements grants an action, with the part of IAM in use."""
    for statement in policy["Statement"]:
        actions, resources = (listed(statement[part]) for part in ("Action", "Resource"))
        wanted = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        wanted = [wanted] if isinstance(wanted, str) else wanted
        if (
            statement["Effect"] == "Allow"
            and any(fnmatch.fnmatchcase(action, pattern) for pattern in actions)
            and any(fnmatch.fnmatchcase(resource, pattern) for pattern in resources)
            and (wanted is None or any(fnmatch.fnmatchcase(prefix or "", w) for w in wanted))
        ):
            return True
    return False


LAKE, AUDITS = "arn:aws:s3:::the-lake", "arn:aws:s3:::the-audits"
WISHES = [
    ("audit", "s3:GetObject", f"{LAKE}/lake/models/m/day=2026-01-01/model.cbm", None, True),
    ("audit", "s3:ListBucket", LAKE, "lake/labels/d/day=2026-01-01/", True),
    ("audit", "s3:PutObject", f"{AUDITS}/warehouse/audits/_delta_log/0.json", None, True),
    ("audit", "s3:PutObject", f"{LAKE}/lake/models/m/day=2026-01-01/model.cbm", None, False),
    ("audit", "s3:DeleteObject", f"{LAKE}/lake/models/m/day=2026-01-01/_SUCCESS", None, False),
    ("audit", "s3:GetObject", f"{LAKE}/elsewhere/secret", None, False),
    ("audit", "s3:GetObject", f"{LAKE}/lake-of-others/secret", None, False),
    ("audit", "s3:ListBucket", LAKE, "", False),
    ("audit", "s3:PutObject", f"{AUDITS}/report/index.html", None, False),
    ("audit", "s3:DeleteObjectVersion", f"{AUDITS}/warehouse/audits/0.parquet", None, False),
    ("audit", "s3:PutBucketPolicy", AUDITS, None, False),
    ("audit", "iam:PassRole", "*", None, False),
    ("reader", "s3:GetObject", f"{AUDITS}/warehouse/audits/0.parquet", None, True),
    ("reader", "s3:PutObject", f"{AUDITS}/warehouse/audits/0.parquet", None, False),
    ("reader", "s3:GetObject", f"{LAKE}/lake/labels/d/day=2026-01-01/0.parquet", None, False),
]


@pytest.mark.slow
@needs_terraform
@needs_provider
@pytest.mark.usefixtures("applied")
def test_the_applied_roles_may_do_this_and_not_that(cloud):
    iam = client(cloud, "iam")
    names = {"audit": "lake-read-warehouse-write", "reader": "warehouse-read"}
    policies = {
        role: iam.get_role_policy(RoleName=f"privaudit-{role}", PolicyName=name)["PolicyDocument"]
        for role, name in names.items()
    }
    for role, action, resource, prefix, expected in WISHES:
        granted = allows(policies[role], action, resource, prefix)
        assert granted is expected, (role, action, resource, prefix)
    (name,) = iam.list_role_policies(RoleName="privaudit-audit")["PolicyNames"]
    assert name == "lake-read-warehouse-write"
    trust = iam.get_role(RoleName="privaudit-audit")["Role"]["AssumeRolePolicyDocument"]
    (statement,) = trust["Statement"]
    assert statement["Condition"]["StringEquals"] == {
        "example:sub": "system:serviceaccount:privaudit:privaudit-audit",
        "example:aud": "sts.amazonaws.com",
    }


@pytest.mark.slow
@needs_terraform
@needs_provider
@pytest.mark.parametrize("bucket", ["the-lake", "the-audits"])
@pytest.mark.usefixtures("applied")
def test_the_applied_buckets_are_encrypted_versioned_and_private(cloud, bucket):
    s3 = client(cloud, "s3")
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    (rule,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    expiring = {rule["Filter"]["Prefix"] for rule in rules if "Expiration" in rule}
    assert expiring == ({"lake/labels/"} if bucket == "the-lake" else set())
    with pytest.raises(ClientError):
        s3.head_bucket(Bucket="another")
