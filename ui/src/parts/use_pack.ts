import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { get, packPath } from "../api/client";
import { type Document, documentOf, textOf } from "../api/document";
import type { Graph, PackReport } from "../api/types";

/** Reads a pack with its document; the pack of a digest never changes. */
export function usePack(ref: string | undefined) {
  const request = useQuery({
    queryKey: ["pack", ref],
    queryFn: ({ signal }) => get<PackReport>(packPath(ref ?? ""), { includeContent: true }, signal),
    enabled: ref !== undefined && ref !== "",
    staleTime: 300_000,
  });
  const source = useMemo(() => textOf(request.data?.content), [request.data]);
  const document: Document = useMemo(() => documentOf(source), [source]);
  return { asked: request, source, document };
}

export function useGraph(ref: string | undefined, agent = "") {
  return useQuery({
    queryKey: ["graph", ref, agent],
    queryFn: ({ signal }) => get<Graph>(`${packPath(ref ?? "")}/graph`, { agent }, signal),
    enabled: ref !== undefined && ref !== "",
    staleTime: 300_000,
  });
}
