"""The calls of PackService as `Operation`s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pawl_client._convert import from_proto
from pawl_client._flow import Operation
from pawl_client._packs import Pack, PackDetails, PackGraph, PackReport, RegisteredPack
from pawl_client.v1 import pack_pb2

_PACK = "/pawl.v1.PackService/"


@dataclass(frozen=True, slots=True)
class Packs:
    """Calls of PackService in one namespace."""

    namespace: str

    def validate(self, content: bytes, filename: str, schema: str) -> Operation[PackReport]:
        request = pack_pb2.ValidatePackRequest(
            namespace=self.namespace, content=content, filename=filename, strict_schema=schema
        )
        return Operation(_PACK + "ValidatePack", request, pack_pb2.ValidatePackResponse, from_proto)

    def register(
        self, content: bytes, filename: str, make_default: bool, move_version: bool
    ) -> Operation[RegisteredPack]:
        request = pack_pb2.RegisterPackRequest(
            namespace=self.namespace,
            content=content,
            filename=filename,
            make_default=make_default,
            move_version=move_version,
        )
        return Operation(_PACK + "RegisterPack", request, pack_pb2.RegisterPackResponse, from_proto)

    def get(self, pack: str, include_content: bool) -> Operation[PackDetails]:
        request = pack_pb2.GetPackRequest(
            namespace=self.namespace, pack=pack, include_content=include_content
        )
        return Operation(_PACK + "GetPack", request, pack_pb2.GetPackResponse, from_proto)

    def list(self, page_size: int, token: str) -> Operation[tuple[tuple[Pack, ...], str]]:
        request = pack_pb2.ListPacksRequest(
            namespace=self.namespace, page_size=page_size, page_token=token
        )

        def read(answer: Any) -> tuple[tuple[Pack, ...], str]:
            return tuple(from_proto(item) for item in answer.packs), answer.next_page_token

        return Operation(_PACK + "ListPacks", request, pack_pb2.ListPacksResponse, read)

    def graph(self, pack: str, agent: str) -> Operation[PackGraph]:
        request = pack_pb2.GetPackGraphRequest(namespace=self.namespace, pack=pack, agent=agent)
        return Operation(_PACK + "GetPackGraph", request, pack_pb2.GetPackGraphResponse, from_proto)
