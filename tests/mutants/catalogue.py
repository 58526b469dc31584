"""The mutants of this folder, and the faults that they are of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.patch import read_patch

if TYPE_CHECKING:
    from tests.mutants.patch import Mutant

ROWS = {
    # Connection and consumers
    "aio-pika 231": "after a restart of the broker the client is connected again and consumes nothing",
    "faststream 2758": "after a maintenance the queues come back and the consumers do not",
    "aiormq 187, aio-pika 334": "the broker cancels a consumer and nobody notices",
    "aio-pika 332": "callbacks are referenced weakly and collected",
    "nameko 359, aio-pika 679": "after a quick restart the own reply queue is locked",
    "aio-pika 565": "a queue with other arguments is declared again and again at full speed",
    "aio-pika 112": "an outage floods the log",
    "faststream 1579": "publishing hangs during an outage and bursts afterwards",
    "aio-pika 675, pika 1104": "user code blocks the loop, heartbeats are missed, and all beside it is lost",
    "aiormq 84, aio-pika 134": "certificates are not verified, or amqps is plaintext",
    "amqplib 483": "an @ or a / in a password or vhost breaks the address",
    "nameko 582": "the password is logged",
    # Replies
    "aio-pika 426": "a call that nobody answers hangs",
    "aio-pika 573": "futures are kept after closing, and a late reply raises",
    "masstransit 3985": "replies have nowhere to go before the actions of a stopping process have finished",
    "rabbitmq-java-client 5": "a reply to nothing known goes round for ever",
    "faststream 1318": "requests at the same time wait for each other",
    "celery 4830": "queues of replies are left behind",
    "celery 3957": "the first publish after the broker's death is lost without a word",
    "aiormq 9": "a publish that no queue takes raises nothing",
    # Delivery, retries, shutdown
    "celery 6760, rabbitmq-server 17317": "past the broker's time-out the worker is deaf or the action runs twice",
    "taskiq-aio-pika 46": "an ack on a dead channel wedges the worker",
    "taskiq-aio-pika 35": "a message that kills its worker goes round for ever",
    "celery 1628": "the message of a killed worker was acked",
    "taskiq 322": "failures are acked, and no dead letter tells of them",
    "celery 9867": "the broker takes a retry for a cycle of dead letters and drops it",
    "dramatiq 458": "a message with a long delay holds up those behind it",
    "rabbitmq-server 11948": "what waits occupies every place of its worker",
    "celery 3802": "what was finished before a shutdown runs again after it",
    "taskiq 380, hatchet 4383": "the grace time is ignored, or heartbeats end before the work",
    "aio-pika 490": "opening and closing channels leaks",
    "aiormq 55": "a cancelled request corrupts its channel",
    "django-celery-results 423": "a cancellation is lost when no worker runs",
    "hatchet 4731": "a worker process is dead, and whoever started it reports that all is well",
    "keda 638": "what is in hand counts as nothing, and busy processes are stopped",
    "procrastinate 1518": "two workers of one name hide the orphans of the first",
    # Interrupts and runs
    "langgraph 6208 and 3126, adk-python 5450": "what finished runs again when its siblings are resumed",
    "langgraph 6626, 6533 and 8579": "interrupts side by side share an id, and an answer reaches another's tool",
    "langgraph 6624": "of interrupts side by side only the first is seen",
    "langgraph 8837": "an answer that was used satisfies a later interrupt",
    "mastra 20443 and 24796": "of two answers at once both run, and a finished run is resumed",
    "agent-framework 7458": "an answer is taken, the run fails, and the answer is gone",
    "agent-framework 6910 and 7137": "calls that wait beside an interrupt vanish with their process",
    "langgraph 8394": "code that catches exceptions swallows an interrupt",
    "vercel-ai 15947": "a client makes up an approval",
    "langchain 37093 and 33787, deepagents 2947": "a rejected call runs, or its model never hears of it",
    "langgraph 6726, harness-sdk 859": "after a cancellation or a crash a call has no result",
    "openai-agents-python 3288 and 4339, langgraph 6718": "what is no JSON breaks a saved run, or changes in it",
    "fastmcp 2679": "a call is said to be cancelled and goes on",
    "langgraph 6486": "an exception of a tool ends the agent",
    "openai-agents-js 1934, claude-code 19882": "the name of one tool breaks the whole session",
    "fastmcp 3034": "a tool that is hidden for one session is hidden for others",
}
"""What users of other systems reported, by where they did, as far as it concerns what is built here."""

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]


def all_mutants() -> list[Mutant]:
    """Read every patch. Raises PatchError."""
    return [read_patch(path) for path in sorted(FOLDER.glob("*.patch"))]
