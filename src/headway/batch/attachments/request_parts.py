"""Attachments in a request: the parts of a message, as each API wants them. Pure.

They go into the last message of the user, in front of its text: that is where Anthropic and Google want them. A file is a mark
(`providers.attached_body`), and its base64 is inserted while it is sent. File names do not leave this machine: documents are numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from headway.batch.attachments.attached_file import AttachedFile
from headway.batch.attachments.references import PDF, Reference, type_of_url
from headway.errors import UsageError
from headway.providers.attached_body import mark_of

Part = dict[str, Any]

#: The end of a path → the name of its API here.
_APIS: Final = {
    "/chat/completions": "chat",
    "/responses": "responses",
    "/messages": "messages",
    ":generateContent": "generateContent",
    "/converse": "converse",
    "/invoke": "invoke",
}


class Attachment(msgspec.Struct, frozen=True, gc=False):
    """What a row names, and its file; None for an address."""

    reference: Reference
    file: AttachedFile | None = None

    @property
    def type(self) -> str:
        """Its type; "" if nothing says it."""
        return type_of_url(self.reference) if self.file is None else self.file.media.type

    @property
    def is_pdf(self) -> bool:
        return self.type == PDF

    @property
    def mark(self) -> str:
        """The mark that stands for the file."""
        assert self.file is not None
        return mark_of(self.file.digest, self.file.size)

    @property
    def data_url(self) -> str:
        """The file as an address of itself."""
        return f"data:{self.type};base64,{self.mark}"


def api_of(path: str) -> str:
    """The API of requests to this path; "" if it takes no attachments."""
    return next((api for end, api in _APIS.items() if path.endswith(end)), "")


def add_parts(api: str, body: dict[str, Any], attachments: Sequence[Attachment]) -> None:
    """Put attachments into the last message of the user."""
    make = _MAKERS[api]
    parts = [make(attachment, number) for number, attachment in enumerate(attachments, 1)]
    if api == "responses":
        if isinstance(body["input"], str):
            body["input"] = [{"role": "user", "content": body["input"]}]
        turns = body["input"]
    else:
        turns = body["contents" if api == "generateContent" else "messages"]
    turn = next((one for one in reversed(turns) if _is_users(one)), None)
    if turn is None:
        raise UsageError("attachments need a message of the user to go with")
    key = "parts" if api == "generateContent" else "content"
    turn[key] = [*parts, *_own_parts(api, turn.get(key))]


def _is_users(turn: object) -> bool:
    return isinstance(turn, dict) and turn.get("role", "user") == "user"


def _own_parts(api: str, content: object) -> list[Any]:
    if isinstance(content, list):
        return content
    if not isinstance(content, str):
        return []
    if api in ("converse", "generateContent"):
        return [{"text": content}]
    return [{"type": "input_text" if api == "responses" else "text", "text": content}]


# -- each API -----------------------------------------------------------------------------------------------------


def _chat(attachment: Attachment, number: int) -> Part:
    if attachment.is_pdf:
        if attachment.file is None:
            raise _no_address(attachment, "OpenAI's chat API takes no PDF by its address: attach the file")
        return {
            "type": "file",
            "file": {"filename": f"document-{number}.pdf", "file_data": attachment.data_url},
        }
    url = attachment.reference.url or attachment.data_url
    return {"type": "image_url", "image_url": {"url": url} | _detail(attachment)}


def _responses(attachment: Attachment, number: int) -> Part:
    if not attachment.is_pdf:
        url = attachment.reference.url or attachment.data_url
        return {"type": "input_image", "image_url": url} | _detail(attachment)
    if attachment.file is None:
        return {"type": "input_file", "file_url": attachment.reference.url}
    return {"type": "input_file", "filename": f"document-{number}.pdf", "file_data": attachment.data_url}


def _detail(attachment: Attachment) -> Part:
    return {"detail": attachment.reference.detail} if attachment.reference.detail else {}


def _messages(attachment: Attachment, number: int) -> Part:
    source = {"type": "url", "url": attachment.reference.url}
    if attachment.file is not None:
        source = {"type": "base64", "media_type": attachment.type, "data": attachment.mark}
    return {"type": "document" if attachment.is_pdf else "image", "source": source}


def _invoke(attachment: Attachment, number: int) -> Part:
    if attachment.file is None:
        raise _no_address(attachment, "Bedrock takes no addresses: attach the file")
    return _messages(attachment, number)


def _generate_content(attachment: Attachment, number: int) -> Part:
    if attachment.file is not None:
        return {"inlineData": {"mimeType": attachment.type, "data": attachment.mark}}
    if not attachment.type:
        raise _no_address(attachment, 'Gemini must know its type: {"url": …, "type": "image/png"}')
    return {"fileData": {"mimeType": attachment.type, "fileUri": attachment.reference.url}}


def _converse(attachment: Attachment, number: int) -> Part:
    if attachment.file is None:
        raise _no_address(attachment, "Bedrock takes no addresses: attach the file")
    kind, name = attachment.type.split("/")
    if kind == "image":
        return {"image": {"format": name, "source": {"bytes": attachment.mark}}}
    # Names must differ, also between the turns of a conversation.
    name = f"document-{number}-{attachment.file.digest[:8]}"
    return {"document": {"format": "pdf", "name": name, "source": {"bytes": attachment.mark}}}


def _no_address(attachment: Attachment, why: str) -> UsageError:
    return UsageError(f"{attachment.reference.name}: {why}")


_MAKERS: Final[dict[str, Callable[[Attachment, int], Part]]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "generateContent": _generate_content,
    "converse": _converse,
    "invoke": _invoke,
}
