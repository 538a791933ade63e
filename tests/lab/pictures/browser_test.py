#!/usr/bin/env python3
"""Opens a report in headless Chromium and uses it like a reader: browser_test.py REPORT.html [PICTURES]

The report must have at least three finished rows, one labelled "dpn". PICTURES: a folder for screenshots.
Exit code 0, 1 (one line per fault) or 77 (no Chromium).
"""
import os
import sys

from browser import Browser, find_chromium

WIDTHS = (1280, 390)
failures = []


def check(true, what):
    if not true:
        failures.append(what)


def column(browser, number):
    """Full numbers of a column, from top to bottom, in visible rows."""
    return browser.value("[...document.querySelectorAll('#results tbody tr')].filter(r => !r.hidden)"
                         ".map(r => r.cells[%d].dataset.sort).map(t => t === undefined ? null : Number(t))" % number)


def labels(browser):
    return browser.value("[...document.querySelectorAll('#results tbody tr')].filter(r => !r.hidden)"
                         ".map(r => r.cells[0].textContent)")


def shown(browser, selector):
    return browser.value("[...document.querySelectorAll('%s')].filter(e => e.checkVisibility()).length" % selector)


def fits(browser, name):
    """Marks of gains are visible, and the labels stay when the table is scrolled."""
    box = browser.value("document.querySelector('#results .scroll').getBoundingClientRect().right")
    ends = browser.value("[...document.querySelectorAll('#results tbody tr')].map(r => r.cells[2].getBoundingClientRect().right)")
    check(all(end <= box + 1 for end in ends), f"{name}: gains end at {ends}, the table is cut at {box}")
    left = ("(() => { const s = document.querySelector('#results .scroll'); s.style.width = '12rem'; s.scrollLeft = 60;"
            " const at = [...document.querySelectorAll('#results tr > :first-child')].map(c => c.getBoundingClientRect().left"
            " - s.getBoundingClientRect().left); s.style.width = ''; return at; })()")
    places = browser.value(left)
    check(all(abs(place) < 1 for place in places), f"{name}: labels scroll out of sight: {places}")


def sort_by_mouse(browser, name):
    """Sorts by the first column with numbers."""
    number = browser.value("[...document.querySelector('#results tbody tr').cells].findIndex(c => c.dataset.sort !== undefined)")
    planned = labels(browser)
    button = "#results thead th:nth-child(%d) button" % (number + 1)
    state = "document.querySelector('#results thead th:nth-child(%d)').getAttribute('aria-sort')" % (number + 1)
    for expected, order in (("ascending", lambda v: sorted(v)), ("descending", lambda v: sorted(v, reverse=True))):
        browser.click(button)
        values = [value for value in column(browser, number) if value is not None]
        check(len(values) > 1 and values == order(values), f"{name}: column {number} is not {expected}: {values}")
        check(browser.value(state) == expected, f"{name}: aria-sort is not {expected}")
    browser.click(button)
    check(labels(browser) == planned, f"{name}: the third click does not bring back the plan's order")
    check(browser.value(state) is None, f"{name}: aria-sort stays")


def sort_by_keys(browser, name):
    browser.click("#filter")
    for _ in range(5):
        browser.key("Tab")
        if browser.value("document.activeElement.matches('#results th button')"):
            break
    else:
        check(False, f"{name}: Tab does not reach the sort buttons")
        return
    browser.key("Enter", "\r")
    order = labels(browser)
    check(order == sorted(order), f"{name}: Enter on the first column does not sort by label: {order}")
    browser.key("Enter", "\r")
    browser.key("Enter", "\r")


def filter_rows(browser, name):
    rows, panels = len(labels(browser)), shown(browser, ".panel")
    browser.click("#filter")
    browser.type("DPN")
    check(labels(browser) == ["dpn"], f"{name}: the filter DPN shows {labels(browser)}")
    check(browser.value("document.getElementById('status').textContent") == f"1 of {rows} rows", f"{name}: status line")
    check(0 < shown(browser, ".panel") < panels, f"{name}: curves do not follow the filter")
    check(shown(browser, "#trials details.row") == 1, f"{name}: trials do not follow the filter")
    browser.key("Escape")
    check(len(labels(browser)) == rows and shown(browser, ".panel") == panels, f"{name}: Escape does not end the filter")
    browser.type("no such row")
    check(labels(browser) == [], f"{name}: a filter that nothing meets shows rows")
    browser.key("Escape")


def open_trials(browser, name):
    check(shown(browser, "#trials dl dt") < 40, f"{name}: trials are open from the start")
    browser.click("#trials details.row > summary")
    browser.click("#trials details.row details.trial > summary")
    check(browser.value("document.querySelector('#trials details.trial').open"), f"{name}: a trial does not open")
    browser.click("#open-all")
    check(browser.value("[...document.querySelectorAll('#trials details.trial')].every(d => d.open)"), f"{name}: open all")
    browser.click("#close-all")
    check(shown(browser, "#trials details.trial") == 0, f"{name}: close all")


CONTRAST = """(() => {
  const light = (c) => { const v = c.map(x => (x /= 255) <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
                         return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const parts = (text) => text.match(/[0-9.]+/g).map(Number);
  const back = light(parts(getComputedStyle(document.body).backgroundColor).slice(0, 3));
  const worst = {};
  for (const [selector, property] of [['h1', 'color'], ['.soft', 'color'], ['a', 'color'], ['#results td', 'color'],
       ['.footnotes', 'color'], ['.picture text', 'fill'], ['.picture .p-soft', 'fill']]) {
    const element = document.querySelector(selector);
    if (!element) continue;
    const front = light(parts(getComputedStyle(element)[property]).slice(0, 3));
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 4.5) worst[selector] = ratio;
  }
  return worst;
})()"""


def appearance(browser, name, pictures):
    backs = {}
    for scheme in ("light", "dark"):
        browser.look(scheme)
        backs[scheme] = browser.value("getComputedStyle(document.body).backgroundColor")
        faint = browser.value(CONTRAST)
        check(not faint, f"{name} {scheme}: too little contrast: {faint}")
        if pictures:
            browser.picture(os.path.join(pictures, f"{name}-{scheme}.png"))
    check(backs["light"] != backs["dark"], f"{name}: light and dark look the same")
    browser.look("dark", "print")
    check(browser.value("getComputedStyle(document.body).backgroundColor") in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"),
          f"{name}: dark paper")
    check(shown(browser, ".tools") == 0, f"{name}: buttons on paper")
    if pictures:
        browser.picture(os.path.join(pictures, f"{name}-print.png"))
    browser.look("light")


def main():
    report, pictures = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    chromium = find_chromium()
    if not chromium:
        print("skipped: no Chromium on this machine (Debian's package chromium)")
        return 77
    browser = Browser(chromium)
    try:
        for width in WIDTHS:
            name = str(width)
            browser.size(width, 900)
            browser.open(report)
            wide = browser.value("document.documentElement.scrollWidth")
            check(wide <= width, f"{name}: the page is {wide} pixels wide")
            check(shown(browser, ".wide .picture") == (width > 640), f"{name}: the wide picture")
            check(shown(browser, ".narrow .picture") == (width <= 640), f"{name}: the narrow picture")
            check(browser.value("[...document.querySelectorAll('svg.picture')].every(s => s.getAttribute('aria-labelledby')"
                                ".split(' ').every(id => document.querySelectorAll('#' + id).length === 1))"),
                  f"{name}: a picture without its title and description")
            appearance(browser, name, pictures)
            fits(browser, name)
            sort_by_mouse(browser, name)
            sort_by_keys(browser, name)
            filter_rows(browser, name)
            open_trials(browser, name)
        check(not browser.complaints, f"the console says: {browser.complaints}")
        asked = [url for url in browser.requests if not url.endswith(os.path.basename(report))]
        check(not asked, f"it asks for {asked}")
        # The whole page is readable without scripts.
        browser.call("Emulation.setScriptExecutionDisabled", value=True)
        browser.open(report)
        check(shown(browser, "#results tbody tr") > 0 and shown(browser, ".tools") == 0, "without scripts")
    except RuntimeError as error:
        failures.append(str(error)[:500])
        failures.extend(browser.complaints)
    finally:
        browser.close()
    for failure in failures:
        print(failure)
    print(f"report in {os.path.basename(chromium)} at {WIDTHS} pixels: {len(failures)} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
