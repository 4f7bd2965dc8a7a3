"""AgentDojo's suites, without the SDKs of models that its package imports on the way."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

VERSION = "v1.2.2"


def load() -> dict[str, Any]:
    """The suites by name. `agentdojo.agent_pipeline` imports five SDKs in its `__init__`
    and one in `llms.google_llm`; nothing of them is used by tasks, tools or checks, so
    these three modules are put in place without being executed."""
    spec = importlib.util.find_spec("agentdojo")
    assert spec and spec.submodule_search_locations
    root = Path(next(iter(spec.submodule_search_locations)))
    for name in ("agent_pipeline", "agent_pipeline.llms"):
        package = ModuleType(f"agentdojo.{name}")
        package.__path__ = [str(root / name.replace(".", "/"))]
        sys.modules[package.__name__] = package
    google = ModuleType("agentdojo.agent_pipeline.llms.google_llm")
    google.EMPTY_FUNCTION_NAME = "<empty-function>"  # type: ignore[attr-defined]
    sys.modules[google.__name__] = google
    from agentdojo.task_suite.load_suites import get_suites

    return dict(get_suites(VERSION))
