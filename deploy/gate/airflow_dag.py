"""Airflow 3: exit codes 1, 2 and 3 of `privaudit gate` fail the task, so nothing is released."""  # noqa: INP001

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

GATE = (
    "privaudit gate --target new.ubj --proxy old.ubj --table rows.parquet --label late "
    "--split split --declared 2 --max-epsilon 4"
)

with DAG("release", schedule=None) as dag:
    gate = BashOperator(task_id="gate", bash_command=GATE, cwd="/srv/training", retries=0)
    release = BashOperator(task_id="release", bash_command="cp new.ubj released.ubj",
                           cwd="/srv/training")  # fmt: skip
    gate >> release
