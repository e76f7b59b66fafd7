"""What schemathesis cannot know of the document: texts of formats that are ours, questions that somebody
asked, and the branch that it sits on."""

import itertools
import os
import uuid

import schemathesis
from hypothesis import strategies

schemathesis.openapi.format(
    "time-zone", strategies.sampled_from(["UTC", "Europe/Berlin", "Asia/Tokyo", "America/St_Johns"])
)
schemathesis.openapi.format(
    "cron", strategies.sampled_from(["0 9 * * 1-5", "*/15 * * * *", "30 2,14 * * *", "@daily", "0 0 L * *"])
)

TOKENS = os.environ["FAMULUS_TEST_TOKENS"].split(",")
QUESTIONS = itertools.cycle(os.environ["FAMULUS_TEST_QUESTIONS"].split(",") + [None])


@schemathesis.hook
def before_call(context, case, kwargs):
    label = case.operation.label
    # Every token may be revoked but those that it is sent with: after that, nothing would be tested any more.
    if label == "DELETE /v1/tokens/{id}" and case.path_parameters.get("id") in TOKENS:
        case.path_parameters["id"] = str(uuid.uuid4())
    # No request makes a question, so no id of one is found in an answer.
    if label == "POST /v1/approvals/{id}" and case.meta.generation.mode.is_positive:
        case.path_parameters["id"] = next(QUESTIONS) or case.path_parameters["id"]


@schemathesis.hook
def filter_body(context, body):
    # A part of a form has no type: whatever a name was made of, it arrives as a text, and is one.
    if context.operation.label != "POST /api/upload" or not isinstance(body, dict):
        return True
    return isinstance(body.get("filename", ""), str)
