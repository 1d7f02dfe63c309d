"use strict";
(async () => {
  const box = document.getElementById("health"), words = document.getElementById("health-text");
  try {
    const answer = await fetch("/readyz", { cache: "no-store" });
    const told = await answer.json();
    const bad = (told.checks || []).filter((check) => !check.ok).map((check) => check.name + ": " + check.reason);
    box.className = "health " + (!told.ready ? "bad" : bad.length ? "warn" : "good");
    words.textContent = told.ready ? (bad.length ? "Ready, but " + bad.join("; ") : "Ready") : "Not ready: " + bad.join("; ");
  } catch {
    box.className = "health bad";
    words.textContent = "No answer from this server.";
  }
})();
