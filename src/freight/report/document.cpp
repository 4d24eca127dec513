// See document.h.
#include "freight/report/document.h"

#include <ctime>

#include "freight/base/strings.h"
#include "freight/base/version.h"
#include "freight/report/markup.h"
#include "freight/report/timeline.h"

namespace freight::report {

namespace {

constexpr size_t kUnbroken = 40;  // of a cell that is not wrapped

const char* page_style() {
  return R"(:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--muted:#5c6570;--rule:#dfe3e8;--card:#f6f7f9;
--good:#1a7f37;--bad:#c62828;--open:#8a5a00;--hit:31 111 178;--miss:200 60 40;
--s0:#1565c0;--s1:#b8480b;--s2:#2e7d32;--s3:#8e24aa;--s4:#00757f;--s5:#a8284e}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e6e9ec;--muted:#9aa5b1;--rule:#333a42;--card:#1d2126;
--good:#5fd07c;--bad:#ff7b72;--open:#e3b341;--hit:66 140 214;--miss:214 92 70;
--s0:#6cb2ff;--s1:#ff9d5c;--s2:#6fd17a;--s3:#d896f0;--s4:#4fd0d9;--s5:#ff8fae}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans",sans-serif}
main{max-width:1200px;margin:0 auto;padding:16px}
h1{font-size:1.5rem;margin:.3rem 0 1rem}h2{font-size:1.2rem;margin:2rem 0 .6rem}h3{font-size:1rem;margin:1.4rem 0 .5rem}
h1,h2,h3,p,dd,td,th,summary,figcaption{overflow-wrap:anywhere}
.muted,.none{color:var(--muted)}
.note{border-left:4px solid var(--open);padding:.3rem .7rem;background:var(--card)}
.cards{display:grid;gap:14px;grid-template-columns:repeat(auto-fit,minmax(min(100%,330px),1fr))}
.card{border:1px solid var(--rule);border-radius:8px;background:var(--card);padding:12px 16px;min-width:0}
.card h2{margin:0 0 .2rem;display:flex;align-items:center;gap:8px}
.key{width:28px;height:14px;flex:none}
.outcome{margin:.1rem 0 .6rem;font-weight:600}.good{color:var(--good)}.bad{color:var(--bad)}.open{color:var(--open)}
.legend{display:flex;flex-wrap:wrap;gap:2px 18px;margin:.4rem 0}.legend .key{display:inline-block;vertical-align:-2px}
ul{margin:.3rem 0;padding-left:1.2rem}li{margin:.25rem 0;overflow-wrap:anywhere}
dl{margin:0}dl>div{display:grid;grid-template-columns:8.5rem 1fr;gap:8px;padding:1px 0}
dt{color:var(--muted)}dd{margin:0;min-width:0}
.charts{display:grid;gap:18px 26px;grid-template-columns:repeat(auto-fit,minmax(min(100%,350px),1fr));margin-bottom:1rem}
.single{max-width:680px}
.pair{display:grid;gap:0 40px;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr))}.pair>*{min-width:0}
figure{margin:0;min-width:0}.chart figcaption{font-weight:600}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:3px 10px 3px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}
th{font-weight:600}thead th{color:var(--muted);font-weight:500;overflow-wrap:normal}
.number{text-align:right}td.number,td.whole,th[scope=row]{white-space:nowrap}
.config td,.config th[scope=row],.classes th[scope=row]{white-space:normal}
.differs>*{background:rgb(var(--hit)/.14)}
.confusion{font-size:.8rem}
.confusion th,.confusion td{border:1px solid var(--paper);padding:2px 3px;text-align:right;min-width:1.8rem}
.confusion th[scope=row]{max-width:9rem;white-space:nowrap;overflow:hidden;text-overflow:ellipsis;padding-right:6px}
.confusion thead td{border:0}
.confusion thead th{vertical-align:bottom;text-align:center}
.confusion thead span{writing-mode:vertical-rl;transform:rotate(180deg);max-height:8rem;overflow:hidden;white-space:nowrap;display:inline-block}
.confusion .hit{background:rgb(var(--hit)/var(--v))}.confusion .miss{background:rgb(var(--miss)/var(--v))}
.confusion .deep{color:#fff}.confusion .miss{font-weight:600}
.map svg{width:min(100%,640px);height:auto;display:block}
.map .frame{fill:var(--card);stroke:var(--muted);stroke-width:.15}
.map .hit{fill:rgb(var(--hit))}.map .miss{fill:rgb(var(--miss))}
.mistakes{display:grid;gap:14px;grid-template-columns:repeat(auto-fill,minmax(130px,1fr))}
.mistakes.texts{grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr))}
.mistake{border:1px solid var(--rule);border-radius:8px;padding:8px;background:var(--card)}
.mistake img{width:100%;height:auto;display:block;border-radius:4px;margin-bottom:6px}
.mistake .pixels{image-rendering:pixelated}
.mistake blockquote{margin:0 0 6px;padding-left:8px;border-left:3px solid var(--rule);white-space:pre-wrap;overflow-wrap:anywhere}
.mistake span{display:block}.mistake .said{color:var(--bad)}.mistake .where{color:var(--muted);font-size:.8rem}
summary{cursor:pointer;color:var(--muted);padding:.3rem 0}
pre{overflow:auto;max-height:30rem;background:var(--card);padding:10px;border-radius:8px;font-size:.8rem}
code{font-family:ui-monospace,"Liberation Mono",monospace;font-size:.88em;overflow-wrap:anywhere}
footer{margin-top:2.5rem;border-top:1px solid var(--rule);padding-top:.6rem}
@media (max-width:480px){body{font-size:14px}main{padding:12px}.confusion{font-size:.7rem}
.confusion th,.confusion td{padding:2px 1px;min-width:1.35rem}.confusion th[scope=row]{max-width:4.5rem}dl>div{grid-template-columns:6.5rem 1fr}}
@media print{.card,.mistake,figure{break-inside:avoid}details{display:none}}
)";
}

}  // namespace

std::string date_text(double seconds) {
  if (!(seconds > 0) || seconds > 1e11) return {};
  const auto t = static_cast<std::time_t>(seconds);
  std::tm utc{};
  char text[40];
  if (!gmtime_r(&t, &utc) || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc) == 0) return {};
  return text;
}

std::string document(const std::string& title, const std::string& body) {
  // The policy forbids running and loading anything, whatever the texts in a page contain.
  return cat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
      "data:\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta name=\"color-scheme\" content=\"light dark\"><link rel=\"icon\" href=\"data:,\"><title>",
      escaped(title), "</title><style>\n", page_style(), plot_style(), timeline_style(),
      "</style></head><body><main>\n", body, "<footer class=\"muted\">Made by freight ", version(), ", ",
      date_text(static_cast<double>(std::time(nullptr))), ".</footer></main></body></html>\n");
}

std::string definitions(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out = "<dl>";
  for (const auto& [name, value] : facts) {
    if (!value.empty()) out += cat("<div><dt>", escaped(name), "</dt><dd>", value, "</dd></div>");
  }
  return out + "</dl>";
}

std::string chart(const Plot& plot) {
  if (!drawable(plot)) return {};
  return cat("<figure class=\"chart\"><figcaption>", escaped(plot.title), "</figcaption>", to_svg(plot), "</figure>");
}

std::string data_table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>";
  for (const Column& c : columns) {
    out += cat("<th scope=\"col\"", c.number ? " class=\"number\"" : "", ">", escaped(c.name), "</th>");
  }
  out += "</tr></thead><tbody>";
  for (const std::vector<std::string>& row : rows) {
    if (row.size() == 1) {
      out += cat("<tr><td class=\"muted\" colspan=\"", columns.size(), "\">", escaped(row[0]), "</td></tr>");
      continue;
    }
    out += "<tr>";
    for (size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      const bool whole = i > 0 && row[i].size() <= kUnbroken;
      const char* number = columns[i].number ? " class=\"number\"" : whole ? " class=\"whole\"" : "";
      out += i == 0 ? cat("<th scope=\"row\"", number, ">", escaped(row[i]), "</th>")
                    : cat("<td", number, ">", escaped(row[i]), "</td>");
    }
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

}  // namespace freight::report
