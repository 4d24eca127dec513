"""Opens a report in headless Chromium and prints as JSON what a reader would meet.

Usage: open_page.py FILE.html [SCREENSHOTS]: with a directory, whole pages by light and dark and at two widths go there.
"""
import base64
import json
import pathlib
import sys

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

PHONE, DESKTOP = 390, 1280

# What sticks out of the window and is not inside a box that scrolls; controls (details) are opened first.
OVERFLOW = """
document.querySelectorAll('details').forEach(d => d.open = true);
const out = [];
for (const e of document.querySelectorAll('main *')) {
  if (e.closest('.scroll, pre') && !e.matches('.scroll, pre')) continue;
  if (e.closest('svg') && !e.matches('svg')) continue;
  const r = e.getBoundingClientRect();
  if (r.width > 0 && (r.right > innerWidth + 0.5 || r.left < -0.5)) out.push(e.tagName + '.' + e.className + ' ' + r.right);
}
if (document.scrollingElement.scrollWidth > innerWidth) out.push('the page scrolls sideways');
for (const svg of document.querySelectorAll('svg.plot')) {
  const box = svg.getBoundingClientRect();
  for (const t of svg.querySelectorAll('text')) {
    const r = t.getBoundingClientRect();
    if (r.left < box.left - 1 || r.right > box.right + 1 || r.bottom > box.bottom + 1) out.push('text ' + t.textContent);
  }
}
return out;
"""
FACTS = """
return {
  charts: [...document.querySelectorAll('svg.plot')].map(s => s.querySelector('title').textContent),
  marks: document.querySelectorAll('svg.plot .line > :not(:first-child)').length,
  lost: document.querySelectorAll('svg.plot .lost').length,
  labels: [...document.querySelectorAll('svg.plot text.end')].map(t => t.textContent),
  pictures: [...document.images].filter(i => i.complete && i.naturalWidth > 0).length,
  images: document.images.length,
  quotes: [...document.querySelectorAll('blockquote')].map(q => q.textContent),
  cells: document.querySelectorAll('.confusion td.hit').length,
  differs: [...document.querySelectorAll('h3 + .scroll tr.differs th')].map(t => t.textContent),
  notes: [...document.querySelectorAll('.note')].map(n => n.textContent),
  outcomes: [...document.querySelectorAll('.outcome')].map(n => n.textContent),
  scripts: document.scripts.length,
  broken: window.broken === undefined ? 0 : 1,
  text: document.body.innerText,
};
"""


def main():
    page = pathlib.Path(sys.argv[1]).resolve().as_uri()
    shots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        result = {"overflow": []}
        for width in (DESKTOP, PHONE):
            driver.execute_cdp_cmd(
                "Emulation.setDeviceMetricsOverride",
                {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width == PHONE},
            )
            driver.get(page)
            if "text" not in result:
                result.update(driver.execute_script(FACTS))
            for scheme in ("light", "dark") if shots else ():
                driver.execute_cdp_cmd(
                    "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
                )
                size = driver.execute_script("return document.documentElement.scrollHeight")
                clip = {"x": 0, "y": 0, "width": width, "height": min(size, 4000), "scale": 1}
                shot = driver.execute_cdp_cmd(
                    "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip, "format": "png"}
                )
                (shots / f"{scheme}-{width}.png").write_bytes(base64.b64decode(shot["data"]))
            result["overflow"] += [f"{width}: {what}" for what in driver.execute_script(OVERFLOW)]
        result["console"] = [entry["message"] for entry in driver.get_log("browser")]
        print(json.dumps(result))
    finally:
        driver.quit()


main()
