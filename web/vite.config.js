import { defineConfig } from "vite";

// Node 18 (Debian 12) builds it, so this stays with a Vite that runs there. JSX is esbuild's: no plugin.
export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    target: "es2020",
    assetsDir: "page", // the server's route for files whose names hold their hash
    assetsInlineLimit: 0, // the Content-Security-Policy allows no data: in scripts and styles
    modulePreload: { polyfill: false }, // an inline script
    reportCompressedSize: false,
  },
  // While working on the page: `npm run dev` beside `butterfly serve`.
  server: { proxy: { "/v1": "http://127.0.0.1:8080", "/cluster": "http://127.0.0.1:8080", "/metrics": "http://127.0.0.1:8080", "/health": "http://127.0.0.1:8080" } },
});
