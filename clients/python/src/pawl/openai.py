"""The public name of `_chat_model`."""

from pawl._chat_model import AsyncChatHandler, ChatHandler

__all__ = ["AsyncChatHandler", "ChatHandler"]
