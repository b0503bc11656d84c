"""Tools of the conformance suite that request input from the client, which the product never does."""

from __future__ import annotations

import json
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged

Context: TypeAlias = ServerRequestContext[Any, Any]
Params: TypeAlias = types.CallToolRequestParams
Outcome: TypeAlias = types.CallToolResult | types.InputRequiredResult


def _make_object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


STRING = {"type": "string"}
NAME = {**_make_object_schema(name=STRING), "required": ["name"]}
COLOR = {**_make_object_schema(color=STRING), "required": ["color"]}
OK = {**_make_object_schema(ok={"type": "boolean"}), "required": ["ok"]}
CONTEXT = {**_make_object_schema(context=STRING), "required": ["context"]}
DEFAULTS = _make_object_schema(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
TITLED = [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}]
ENUMS = _make_object_schema(
    untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
    titledSingle={"type": "string", "oneOf": TITLED},
    legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": ["option1", "option2"]}},
    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
)

PREFIX = "test_input_required_result_"
EMPTY_SCHEMA = _make_object_schema()


def make_text_result(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


def make_elicitation(message: str = "What is your name?", schema: dict[str, Any] = NAME) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def make_sampling_request(text: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=50))


def require_input(state: str | None = None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


def read_field(answer: Any, key: str) -> Any:
    return (answer.content or {}).get(key)


class InputRequestingTools:
    """The tools by name; change notifications are sent over the bus."""

    def __init__(self, bus: InMemorySubscriptionBus) -> None:
        self._bus = bus
        self.tools: dict[str, Callable[[Context, Params], Awaitable[Outcome]]] = {
            "test_sampling": self._request_sampling,
            "test_elicitation": self._make_form_tool(_make_object_schema(response=STRING)),
            "test_elicitation_sep1034_defaults": self._make_form_tool(DEFAULTS),
            "test_elicitation_sep1330_enums": self._make_form_tool(ENUMS),
            "test_trigger_tool_change": self._make_publishing_tool(ToolsListChanged()),
            "test_trigger_prompt_change": self._make_publishing_tool(PromptsListChanged()),
            "test_streaming_elicitation": self._ask_name,
            f"{PREFIX}elicitation": self._ask_name,
            f"{PREFIX}sampling": self._ask_capital,
            f"{PREFIX}list_roots": self._ask_roots,
            f"{PREFIX}request_state": self._check_state,
            f"{PREFIX}multiple_inputs": self._ask_several,
            f"{PREFIX}multi_round": self._ask_in_rounds,
            f"{PREFIX}tampered_state": self._check_tampered_state,
            f"{PREFIX}capabilities": self._ask_by_capabilities,
        }
        self.schemas = dict.fromkeys(self.tools, EMPTY_SCHEMA)
        self.schemas["test_sampling"] = {**_make_object_schema(prompt=STRING), "required": ["prompt"]}
        self.schemas["test_elicitation"] = {**_make_object_schema(message=STRING), "required": ["message"]}

    async def _request_sampling(self, context: Context, params: Params) -> Outcome:
        text = types.TextContent(text=(params.arguments or {})["prompt"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            answer = await context.session.create_message(
                messages=[types.SamplingMessage(role="user", content=text)],
                max_tokens=100,
                related_request_id=context.request_id,
            )
        return make_text_result(f"LLM response: {getattr(answer.content, 'text', '')}")

    def _make_form_tool(self, schema: dict[str, Any]) -> Callable[[Context, Params], Awaitable[Outcome]]:
        async def run(context: Context, params: Params) -> Outcome:
            message = (params.arguments or {}).get("message", "Please provide")
            answer = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
            return make_text_result(f"User response: action={answer.action}, content={json.dumps(answer.content)}")

        return run

    def _make_publishing_tool(self, event: Any) -> Callable[[Context, Params], Awaitable[Outcome]]:
        async def run(_: Context, __: Params) -> Outcome:
            await self._bus.publish(event)
            return make_text_result("changed")

        return run

    async def _ask_name(self, _: Context, params: Params) -> Outcome:
        answer = (params.input_responses or {}).get("user_name")
        if isinstance(answer, types.ElicitResult):
            return make_text_result(f"Hello, {read_field(answer, 'name')}!")
        return require_input(user_name=make_elicitation())

    async def _ask_capital(self, _: Context, params: Params) -> Outcome:
        answer = (params.input_responses or {}).get("capital_question")
        if isinstance(answer, types.CreateMessageResult):
            return make_text_result(f"Model said: {getattr(answer.content, 'text', '')}")
        return require_input(capital_question=make_sampling_request("What is the capital of France?"))

    async def _ask_roots(self, _: Context, params: Params) -> Outcome:
        answer = (params.input_responses or {}).get("client_roots")
        if isinstance(answer, types.ListRootsResult):
            return make_text_result(f"{len(answer.roots)} root(s)")
        return require_input(client_roots=types.ListRootsRequest())

    async def _check_state(self, _: Context, params: Params) -> Outcome:
        if "confirm" in (params.input_responses or {}) and params.request_state == "nonce":
            return make_text_result("state-ok: confirmation received")
        return require_input("nonce", confirm=make_elicitation("Please confirm", OK))

    async def _ask_several(self, _: Context, params: Params) -> Outcome:
        if {"user_name", "greeting", "client_roots"} <= set(params.input_responses or {}):
            return make_text_result("All inputs received.")
        return require_input(
            "multi",
            user_name=make_elicitation(),
            greeting=make_sampling_request("Generate a greeting"),
            client_roots=types.ListRootsRequest(),
        )

    async def _ask_in_rounds(self, _: Context, params: Params) -> Outcome:
        answers = params.input_responses or {}
        state = json.loads(params.request_state) if params.request_state else {"round": 0}
        if state["round"] == 1 and "step1" in answers:
            following = json.dumps({"round": 2, "name": read_field(answers["step1"], "name")})
            return require_input(following, step2=make_elicitation("Step 2: color?", COLOR))
        if state["round"] == 2 and "step2" in answers:
            return make_text_result(f"{state.get('name')} likes {read_field(answers['step2'], 'color')}.")
        return require_input(json.dumps({"round": 1}), step1=make_elicitation("Step 1: name?"))

    async def _check_tampered_state(self, _: Context, params: Params) -> Outcome:
        if params.request_state:
            return make_text_result(f"state-ok: {params.request_state}")
        return require_input("round-1", confirm=make_elicitation("Please confirm", OK))

    async def _ask_by_capabilities(self, context: Context, _: Params) -> Outcome:
        capabilities = context.session.client_capabilities
        requests: dict[str, Any] = {}
        if capabilities is None or capabilities.sampling is not None:
            requests["sample"] = make_sampling_request("Say hello")
        if capabilities is None or capabilities.elicitation is not None:
            requests["ask"] = make_elicitation()
        return require_input("caps", **requests)


PROMPT = types.Prompt(name=f"{PREFIX}prompt", description="Asks before it answers")


def get_prompt(params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    answer = (params.input_responses or {}).get("user_context")
    if isinstance(answer, types.ElicitResult):
        text = types.TextContent(text=f"Context: {answer.content}")
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])
    return require_input(user_context=make_elicitation("Context?", CONTEXT))
