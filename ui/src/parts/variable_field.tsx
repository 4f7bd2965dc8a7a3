import { useId } from "react";
import type { Variable } from "../api/document";

interface Props {
  variable: Variable;
  text: string;
  fault: string | undefined;
  onText: (text: string) => void;
}

const asText = (value: unknown): string =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);

/** A field for a variable, by its type. */
export function VariableField({ variable, text, fault, onText }: Props) {
  const id = useId();
  const { name, type = "string", required, description } = variable;
  const kept = asText(variable.default);
  return (
    <div className="field">
      <label htmlFor={id}>
        {name}{" "}
        <span className="muted">
          {type}
          {required ? ", required" : ""}
        </span>
      </label>
      {description ? (
        <span className="muted" id={`${id}-about`}>
          {description}
        </span>
      ) : null}
      <Input
        id={id}
        variable={variable}
        text={text}
        kept={kept}
        described={`${id}-fault${description ? ` ${id}-about` : ""}`}
        fault={fault}
        onText={onText}
      />
      <span className="field-problem" id={`${id}-fault`} role={fault ? "alert" : undefined}>
        {fault}
      </span>
    </div>
  );
}

interface InputProps extends Props {
  id: string;
  /** The default of the variable. */
  kept: string;
  described: string;
}

function Input({ id, variable, text, kept, described, fault, onText }: InputProps) {
  const common = {
    id,
    value: text,
    "aria-invalid": fault !== undefined,
    "aria-describedby": described,
    "aria-required": variable.required === true,
  };
  const choices = variable.type === "boolean" ? ["true", "false"] : variable.validation?.enum;
  if (choices) {
    return (
      <select {...common} onChange={(e) => onText(e.target.value)}>
        <option value="">{kept ? `default: ${kept}` : "not given"}</option>
        {choices.map(asText).map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    );
  }
  const hint = kept ? `default: ${kept}` : asText(variable.example);
  if (variable.type === "number" || variable.type === "integer") {
    return (
      <input
        {...common}
        inputMode="decimal"
        placeholder={hint}
        onChange={(e) => onText(e.target.value)}
      />
    );
  }
  const json = variable.type === "object" || variable.type === "array";
  return (
    <textarea
      {...common}
      rows={json ? 3 : 2}
      className={json ? "mono" : undefined}
      placeholder={hint || (json ? (variable.type === "array" ? "[]" : "{}") : "")}
      onChange={(e) => onText(e.target.value)}
    />
  );
}
