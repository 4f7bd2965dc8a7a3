"""Calls about the operator's accounts, limits and schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any

from pawl_client._control import Account, Limit, RaisedBudget, Schedule, UsageReport
from pawl_client._convert import from_proto, instant
from pawl_client._flow import Operation, new_id
from pawl_client.v1 import control_pb2

_CONTROL = "/pawl.v1.ControlService/"


def _day(of: date | str) -> str:
    """The day as the sidecar wants it, in UTC. A datetime without a zone is local time."""
    return str(of.astimezone(timezone.utc).date() if isinstance(of, datetime) else of)


@dataclass(frozen=True, slots=True)
class Controls:
    """Calls of ControlService in one namespace."""

    namespace: str

    def raise_budget(
        self, run_id: str, max_tokens: int, max_cost_micro_usd: int, reason: str, request_id: str
    ) -> Operation[RaisedBudget]:
        request = control_pb2.RaiseBudgetRequest(
            namespace=self.namespace,
            run_id=run_id,
            max_tokens=max_tokens,
            max_cost_micro_usd=max_cost_micro_usd,
            reason=reason,
            request_id=request_id or new_id(),
        )
        return Operation(
            _CONTROL + "RaiseBudget", request, control_pb2.RaiseBudgetResponse, from_proto
        )

    def list_budgets(
        self, name_prefix: str, page_size: int, token: str
    ) -> Operation[tuple[tuple[Account, ...], str]]:
        request = control_pb2.ListBudgetsRequest(
            namespace=self.namespace,
            name_prefix=name_prefix,
            page_size=page_size,
            page_token=token,
        )

        def read(answer: Any) -> tuple[tuple[Account, ...], str]:
            return tuple(from_proto(item) for item in answer.accounts), answer.next_page_token

        return Operation(_CONTROL + "ListBudgets", request, control_pb2.ListBudgetsResponse, read)

    def usage(
        self,
        by: Sequence[str],
        from_day: date | str,
        to_day: date | str,
        only: Mapping[str, str | None],
        labels: Mapping[str, str] | None,
        token: str,
    ) -> Operation[tuple[UsageReport, str]]:
        request = control_pb2.QueryUsageRequest(
            namespace=self.namespace,
            from_day=_day(from_day),
            to_day=_day(to_day),
            group_by=by,
            labels=labels or {},
            page_size=1000,
            page_token=token,
        )
        for name, value in only.items():
            if value is not None:
                setattr(request, name, value)

        def read(answer: Any) -> tuple[UsageReport, str]:
            report = UsageReport(
                groups=tuple(from_proto(group) for group in answer.groups),
                total=from_proto(answer.total),
                complete=answer.complete,
                since=instant(answer.since) if answer.HasField("since") else None,
            )
            return report, answer.next_page_token

        return Operation(_CONTROL + "QueryUsage", request, control_pb2.QueryUsageResponse, read)

    def list_limits(self) -> Operation[tuple[Limit, ...]]:
        request = control_pb2.ListLimitsRequest()

        def read(answer: Any) -> tuple[Limit, ...]:
            return tuple(from_proto(item) for item in answer.limits)

        return Operation(_CONTROL + "ListLimits", request, control_pb2.ListLimitsResponse, read)

    def list_schedules(self) -> Operation[tuple[Schedule, ...]]:
        request = control_pb2.ListSchedulesRequest(namespace=self.namespace)

        def read(answer: Any) -> tuple[Schedule, ...]:
            return tuple(from_proto(item) for item in answer.schedules)

        return Operation(
            _CONTROL + "ListSchedules", request, control_pb2.ListSchedulesResponse, read
        )
