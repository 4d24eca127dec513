"""Drives the page of a server in headless Chromium as a visitor does: draws, types, chooses files, uses the keyboard.

usage: page.py URL DIR [TOKEN]: a server with the models `digits` (28 x 28 grey), `reviews` (text, classes 1 and 5) and
`flowers` (rows, mostly roses), in this order. Pictures of the page at the widths of a desk and a phone go to DIR. Exits 1 with a reason where the page is
wrong; prints "no browser" and exits 77 where there is none.
"""
import math
import os
import sys
import time

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

url, directory = sys.argv[1], os.path.abspath(sys.argv[2])
token = sys.argv[3] if len(sys.argv) > 3 else ""


def browser():
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1100,1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    except WebDriverException as e:
        print("no browser:", e)
        sys.exit(77)


def check(condition, what):
    if not condition:
        picture("failed")
        print("the page is wrong:", what)
        sys.exit(1)


def by(name):
    return driver.find_element(By.ID, name)


def answer():
    return by("best").text


def wait_for(condition, what, seconds=20):
    try:
        WebDriverWait(driver, seconds, 0.05).until(lambda _: condition())
    except WebDriverException:
        check(False, f"{what}; it says '{answer()}'")


def picture(name):
    driver.save_screenshot(os.path.join(directory, name + ".png"))


def draw(points):
    """Strokes on the pad through points of percents of its side."""
    pad = by("pad")
    w, h = pad.size["width"], pad.size["height"]
    place = [(round((x / 100 - 0.5) * w), round((y / 100 - 0.5) * h)) for x, y in points]
    actions = ActionChains(driver, duration=0)
    actions.move_to_element_with_offset(pad, *place[0]).click_and_hold()
    for x, y in place[1:]:
        actions.move_to_element_with_offset(pad, x, y)
    actions.release().perform()


def arc(x, y, rx, ry, first, last, steps=8):
    """Points of an ellipse, angles in degrees, 0 to the right, clockwise."""
    angles = [math.radians(first + (last - first) * i / steps) for i in range(steps + 1)]
    return [(x + rx * math.cos(a), y + ry * math.sin(a)) for a in angles]


THREE = arc(48, 33, 17, 15, 205, 430) + arc(48, 65, 19, 18, -80, 150)
ONE = [(50, 18), (50, 82)]


def width_of(name):
    return driver.execute_script("return document.getElementById(arguments[0]).getBoundingClientRect().width", name)


def fits():
    return driver.execute_script("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def visit():
    driver.get(url)
    if token:
        wait_for(lambda: by("token").is_displayed(), "a token is asked for")
        by("token").send_keys("wrong" + Keys.ENTER)
        wait_for(lambda: "refused" in by("refused").text, "a wrong token is refused")
        by("token").clear()
        by("token").send_keys(token + Keys.ENTER)
    wait_for(lambda: by("card").is_displayed(), "the model is described")


def main():
    visit()
    check("Draw" in answer(), "it says what to do")
    check(all(word in by("facts").text for word in ("61,706", "grayscale image, 28 × 28", "lenet")), "the card: " + by("facts").text)
    draw(THREE)
    wait_for(lambda: answer().startswith("3 "), "a 3 is drawn and a 3 is the answer")
    bars = driver.find_elements(By.CSS_SELECTOR, "#bars li")
    check(len(bars) == 10 and bars[0].text.startswith("3"), "ten bars, that of 3 first")
    check("ms in the server" in by("latency").text, "the latency is told")
    picture("desk-digit")
    by("clear").click()
    wait_for(lambda: "Draw" in answer(), "Clear clears")
    draw(ONE)
    wait_for(lambda: answer().startswith("1 "), "a 1 is drawn and a 1 is the answer")

    # The same by keyboard alone: a line from the middle downwards.
    by("clear").send_keys(Keys.ENTER)
    pad = by("pad")
    pad.send_keys(*[Keys.ARROW_UP] * 8, " ", *[Keys.ARROW_DOWN] * 16)
    wait_for(lambda: answer().startswith("1 "), "a 1 drawn by the keyboard")
    pad.send_keys(Keys.DELETE)

    # A file that is no picture: the server's words.
    path = os.path.join(directory, "bad.png")
    with open(path, "wb") as f:
        f.write(b"no picture")
    by("file").send_keys(path)
    wait_for(lambda: by("best").get_attribute("class") == "fault", "a bad file is refused")
    check("predict" in answer(), "the server's words: " + answer())

    Select(by("model")).select_by_visible_text("reviews")
    check(by("text").is_displayed() and not by("pad").is_displayed(), "a text model has a text field")
    by("text").send_keys("what a joy")
    wait_for(lambda: answer().startswith("5 "), "a good review is a 5")
    by("text").send_keys(Keys.CONTROL + "a", Keys.DELETE)
    wait_for(lambda: "Type" in answer(), "without text there is no answer")
    by("text").send_keys("a bore")
    wait_for(lambda: answer().startswith("1 "), "a bad review is a 1")
    picture("desk-text")

    # A phone, dark.
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    check(fits(), "nothing is wider than a phone (text)")
    picture("phone-text")
    Select(by("model")).select_by_visible_text("digits")
    draw(THREE)
    wait_for(lambda: answer().startswith("3 "), "a 3 on a phone")
    check(fits(), "nothing is wider than a phone (digits)")
    check(width_of("pad") > 220, "the pad is wide enough for a finger")
    time.sleep(0.2)
    picture("phone-digit")
    driver.execute_script("window.scrollTo(0, document.body.scrollHeight)")
    picture("phone-digit-below")

    Select(by("model")).select_by_visible_text("flowers")
    wait_for(lambda: "rows of 2 columns" in by("facts").text, "the card of a model of rows")
    names = [label.text.split("\n")[0] for label in driver.find_elements(By.CSS_SELECTOR, "#fields label")]
    check(names == ["length", "colour"], f"there is a field for each column: {names}")
    check("Fill in the columns" in answer(), "it says what to do: " + answer())
    by("field-0").send_keys("3")
    words = [option.text for option in Select(by("field-1")).options]
    check(words == ["(missing)", "blue", "red"], f"the words of the column are there to be chosen: {words}")
    Select(by("field-1")).select_by_visible_text("red")
    wait_for(lambda: answer().startswith("rose "), "most flowers are roses")
    check(fits(), "nothing is wider than a phone (rows)")
    picture("phone-rows")
    by("field-0").send_keys("x")
    wait_for(lambda: "column length" in answer(), "a cell that is no number is told by its column")
    by("field-0").send_keys(Keys.BACKSPACE)
    wait_for(lambda: answer().startswith("rose "), "and answered once it is one")

    # Every control has a name, and nothing broke the content policy or threw.
    for control in driver.find_elements(By.CSS_SELECTOR, "input, select, textarea, button, canvas[tabindex]"):
        if control.is_displayed():
            check(control.accessible_name, "a control without a name: " + control.get_attribute("outerHTML"))
    loud = [e for e in driver.get_log("browser") if e["level"] == "SEVERE" and "status of 40" not in e["message"]]
    check(not loud, f"the browser's log: {loud}")


driver = browser()
try:
    main()
finally:
    driver.quit()
print("the page is right")
