import { type ReactNode, useState } from "react";
import { Dialog } from "./dialog";
import { SendRow } from "./send_row";
import { useSend } from "./use_send";

interface Props {
  title: string;
  verb: string;
  danger?: boolean;
  path: string;
  body: unknown;
  onDone: () => void;
  onClose: () => void;
  children: ReactNode;
}

/** Asks for a confirmation before an action that cannot be undone. */
export function Confirm({ title, verb, danger, path, body, onDone, onClose, children }: Props) {
  const { busy, problem, send } = useSend(() => {
    onDone();
    onClose();
  });
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void send(path, body);
        }}
      >
        {children}
        <SendRow busy={busy} problem={problem} verb={verb} danger={danger} onClose={onClose} />
      </form>
    </Dialog>
  );
}

/** A button that asks for a confirmation before it acts. */
export function ConfirmButton({
  label,
  small = false,
  ...props
}: Omit<Props, "onClose"> & { label: string; small?: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        className={`button${small ? " small" : ""}${props.danger ? " danger" : ""}`}
        onClick={() => setOpen(true)}
      >
        {label}
      </button>
      {open ? <Confirm {...props} onClose={() => setOpen(false)} /> : null}
    </>
  );
}
