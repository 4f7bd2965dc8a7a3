import { useEffect, useState } from "react";

export type Theme = "system" | "light" | "dark";

const KEY = "pawl.theme";

/** Returns the theme of this browser; "system" follows the operating system. */
export function useTheme(): [Theme, (next: Theme) => void] {
  const [theme, setTheme] = useState<Theme>(() => {
    const kept = localStorage.getItem(KEY);
    return kept === "light" || kept === "dark" ? kept : "system";
  });
  useEffect(() => {
    if (theme === "system") {
      localStorage.removeItem(KEY);
      delete document.documentElement.dataset.theme;
    } else {
      localStorage.setItem(KEY, theme);
      document.documentElement.dataset.theme = theme;
    }
  }, [theme]);
  return [theme, setTheme];
}
