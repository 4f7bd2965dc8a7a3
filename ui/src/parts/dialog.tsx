import { type ReactNode, useEffect, useId, useRef } from "react";

/** A modal dialog. Escape and the close button change nothing. */
export function Dialog({
  title,
  wide = false,
  onClose,
  children,
}: {
  title: string;
  /** True: the dialog has much content. */
  wide?: boolean;
  onClose: () => void;
  children: ReactNode;
}) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={box} aria-labelledby={id} className={wide ? "wide" : undefined} onClose={onClose}>
      <div className="dialog-head">
        <h2 id={id}>{title}</h2>
        <button type="button" className="button quiet" onClick={onClose} aria-label="Close">
          ✕
        </button>
      </div>
      {children}
    </dialog>
  );
}
