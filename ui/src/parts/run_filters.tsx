import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useLocation } from "wouter";
import { get } from "../api/client";
import type { RunFilter } from "../api/run_list";
import type { Pack } from "../api/types";

const TIMES: [string, number][] = [
  ["any time", 0],
  ["the last 15 minutes", 900],
  ["the last hour", 3600],
  ["the last day", 86_400],
  ["the last week", 604_800],
];

const RUN_ID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

interface FiltersProps {
  filter: RunFilter;
  onChange: (next: RunFilter) => void;
  search: string;
  onSearch: (text: string) => void;
}

/** Selects the listed runs. */
export function Filters({ filter, onChange, search, onSearch }: FiltersProps) {
  const packs = useQuery({
    queryKey: ["packs"],
    queryFn: ({ signal }) => get<{ packs?: Pack[] }>("/v1/packs", { pageSize: 1000 }, signal),
  });
  const ids = [...new Set((packs.data?.packs ?? []).map((p) => p.id))];
  return (
    <search className="filters">
      <SearchBox search={search} onSearch={onSearch} />
      <label>
        <span>Pack</span>
        <select value={filter.pack} onChange={(e) => onChange({ ...filter, pack: e.target.value })}>
          <option value="">any</option>
          {ids.map((id) => (
            <option key={id}>{id}</option>
          ))}
        </select>
      </label>
      <TextFilter
        name="State"
        value={filter.state}
        onChange={(state) => onChange({ ...filter, state })}
      />
      <TextFilter
        name="Reason"
        value={filter.reason}
        onChange={(reason) => onChange({ ...filter, reason })}
      />
      <TextFilter
        name="Label"
        hint="key=value"
        value={filter.label}
        onChange={(label) => onChange({ ...filter, label })}
      />
      <label>
        <span>Started</span>
        <select
          value={filter.within}
          onChange={(e) => onChange({ ...filter, within: Number(e.target.value) })}
        >
          {TIMES.map(([word, seconds]) => (
            <option key={seconds} value={seconds}>
              {word}
            </option>
          ))}
        </select>
      </label>
    </search>
  );
}

/** Searches while the user types; the whole id of a run opens the run. */
function SearchBox({ search, onSearch }: Pick<FiltersProps, "search" | "onSearch">) {
  const [, go] = useLocation();
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      const typing =
        event.target instanceof HTMLElement &&
        /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
      if (event.key === "/" && !typing) {
        event.preventDefault();
        box.current?.focus();
      }
    };
    window.addEventListener("keydown", focus);
    return () => window.removeEventListener("keydown", focus);
  }, []);
  const open = () => {
    const id = search.trim().toUpperCase();
    if (RUN_ID.test(id)) {
      go(`/runs/${id}`);
    }
  };
  return (
    <label className="search">
      <span>Search</span>
      <input
        ref={box}
        type="search"
        placeholder="Run, state, reason or label  ( / )"
        value={search}
        onChange={(e) => onSearch(e.target.value)}
        onKeyDown={(e) => e.key === "Enter" && open()}
      />
    </label>
  );
}

interface TextFilterProps {
  name: string;
  hint?: string;
  value: string;
  onChange: (value: string) => void;
}

/** A filter of the server, applied when the field loses the focus or Enter is pressed. */
function TextFilter({ name, hint = "any", value, onChange }: TextFilterProps) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const send = () => text.trim() !== value && onChange(text.trim());
  return (
    <label>
      <span>{name}</span>
      <input
        value={text}
        placeholder={hint}
        onChange={(e) => setText(e.target.value)}
        onBlur={send}
        onKeyDown={(e) => e.key === "Enter" && send()}
      />
    </label>
  );
}
