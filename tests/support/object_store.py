"""An object store on the loopback interface, and the environment that leads to it."""

import contextlib
import logging
import pathlib
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from moto.server import ThreadedMotoServer

# Prefect's handler writes each request's line: a twelfth of a night on the store.
logging.getLogger("werkzeug").setLevel(logging.ERROR)
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@contextlib.contextmanager
def object_store() -> Iterator[str]:
    """Serve a real server of S3's protocol, without a bucket; yield its endpoint."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()


@contextlib.contextmanager
def led_to(endpoint: str, secrets: Sequence[str] = ()) -> Iterator[None]:
    """Let the environment lead to an endpoint, with these secrets for credentials, if any."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {
            **dict(zip(_KEYS, secrets, strict=False)),
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            environment.setenv(name, value)
        yield


@contextlib.contextmanager
def empty_bucket(
    endpoint: str, secrets: Sequence[str] = ("a-key-of-this-test", "a-secret-of-this-test")
) -> Iterator[str]:
    """Yield the URI of an empty bucket of its own, with the environment that leads there."""
    bucket = f"audits-{uuid.uuid4().hex[:8]}"
    with led_to(endpoint, secrets):
        request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")  # noqa: S310
        urllib.request.urlopen(request).close()  # noqa: S310
        yield f"s3://{bucket}"


def upload(folder: pathlib.Path, uri: str) -> None:
    """Write all files of a folder below s3://bucket/prefix, where the environment leads."""
    import boto3  # noqa: PLC0415

    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    client = boto3.client("s3")
    files = [path for path in folder.rglob("*") if path.is_file()]

    def put(path: pathlib.Path) -> None:
        key = f"{prefix}/{path.relative_to(folder).as_posix()}"
        client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, files))
