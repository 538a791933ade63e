#include "experiments/lab/pictures/page.h"

namespace normlab {

std::string_view page_style() {
  return R"css(
:root{color-scheme:light dark;--back:#fff;--text:#1a1a1a;--soft:#555;--line:#d0d4d9;--fill:#f3f5f7;--link:#005a9c;--warn:#a84300;--shade:#0004}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem 1.25rem 3rem;max-width:62rem;background:var(--back);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0}
h2{font-size:1.25rem;margin:2.5rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.25rem}
h3{font-size:1rem;margin:1.25rem 0 .4rem}
p{margin:.5rem 0;max-width:46rem}
a{color:var(--link)}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;margin:.75rem 0}
.soft,figcaption,.footnotes{color:var(--soft);font-size:.9rem}
.footnotes{padding-left:1.2rem;max-width:46rem}
.footnotes li{margin:.2rem 0}
.problems{border-left:4px solid var(--warn);padding:.25rem .75rem;background:var(--fill)}
.scroll{overflow-x:auto;margin:.5rem 0;background:linear-gradient(to left,var(--back) 1rem,transparent) 100%/2rem 100% no-repeat local,
linear-gradient(to left,var(--shade),transparent) 100%/.75rem 100% no-repeat scroll}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem}
caption{text-align:left;color:var(--soft);font-size:.9rem;padding:.25rem 0}
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;overflow-wrap:normal}
thead th{background:var(--fill)}
#results thead th{white-space:nowrap}
tbody th{font-weight:500}
td.number,th.number{text-align:right}td.number{white-space:nowrap}
#results td:not(.number){min-width:14rem;overflow-wrap:anywhere}
#results tbody th{min-width:6rem;overflow-wrap:anywhere}
#results tr>:first-child{position:sticky;left:0}
#results tbody tr>:first-child{background:var(--back)}
tr.baseline th{font-weight:700}
#results tbody tr.baseline>*{background:var(--fill)}
th button{font:inherit;font-weight:600;color:inherit;background:none;border:0;padding:0;cursor:pointer;text-align:left}
th button::after{content:"\2195";padding-left:.35em;color:var(--soft)}
th[aria-sort=ascending] button::after{content:"\2191";color:var(--text)}
th[aria-sort=descending] button::after{content:"\2193";color:var(--text)}
.tools{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;margin:.75rem 0}
.tools[hidden],[data-row][hidden],tr[hidden]{display:none}
input[type=search]{font:inherit;padding:.3rem .5rem;border:1px solid var(--soft);border-radius:4px;background:var(--back);
color:inherit;width:16rem;max-width:100%}
.tools button{font:inherit;padding:.25rem .7rem;border:1px solid var(--soft);border-radius:4px;background:var(--fill);
color:inherit;cursor:pointer}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
figure{margin:1rem 0}
figcaption{max-width:46rem;margin:.4rem 0}
.picture{max-width:100%;height:auto;display:block}
.narrow{display:none}
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr));gap:1rem;margin:.75rem 0}
.panels.large{grid-template-columns:repeat(auto-fill,minmax(min(100%,24rem),1fr))}
.panels .picture{width:100%}
details{margin:.35rem 0}
summary{cursor:pointer;padding:.2rem 0}
details.row{border:1px solid var(--line);border-radius:6px;padding:.1rem .75rem}
details.row>summary{display:flex;flex-wrap:wrap;gap:0 1rem;list-style-position:inside}
details.row>summary::before,details.trial>summary::before{content:"\25B8";color:var(--soft);margin-right:-.4rem}
details.row[open]>summary::before,details.trial[open]>summary::before{content:"\25BE"}
details.row>summary::-webkit-details-marker,details.trial>summary::-webkit-details-marker{display:none}
details.trial{border-top:1px solid var(--line);margin:0}
details.trial>summary{display:flex;flex-wrap:wrap;gap:0 1rem}
summary .name{font-weight:600}
.warn{color:var(--warn)}
dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.15rem 1rem;margin:.4rem 0;font-size:.9rem}
dt{color:var(--soft)}
dd{margin:0;min-width:0}
code{overflow-wrap:anywhere}
pre,code{font:.85rem/1.4 ui-monospace,SFMono-Regular,Consolas,"DejaVu Sans Mono",monospace}
pre{background:var(--fill);padding:.75rem;overflow-x:auto;overflow-wrap:normal;max-height:30rem}
footer{margin-top:3rem;border-top:1px solid var(--line);padding-top:.5rem}
.skip{position:absolute;left:-100rem}
.skip:focus{left:1rem;top:.5rem;background:var(--back);padding:.3rem .6rem}
@media (max-width:640px){body{padding:.75rem .75rem 2rem}th,td{padding:.3rem .45rem}.wide{display:none}.narrow{display:block}
dl{grid-template-columns:1fr}dd{margin-bottom:.3rem}}
@media screen and (max-width:480px){#results table{font-size:.85rem}#results th,#results td{padding:.3rem .25rem}
#results thead th{white-space:normal}#results tbody th{min-width:4.5rem}#results td:not(.number){min-width:9rem}}
@media screen and (prefers-color-scheme:dark){:root{--back:#15181c;--text:#ececec;--soft:#b5bac0;--line:#3a4048;
--fill:#20252b;--link:#7cc4f5;--warn:#f0a13c;--shade:#fff6}}
@media print{:root{color-scheme:light}body{max-width:none;padding:0;font-size:11pt}.tools,.skip,nav{display:none}
th button::after{content:""}.wide{display:block}.narrow{display:none}
figure svg,.panel,tr{break-inside:avoid}h2,h3,summary{break-after:avoid}.scroll{overflow:visible;background:none}
.panels{grid-template-columns:repeat(3,1fr)}pre{max-height:none;white-space:pre-wrap}a{color:inherit;text-decoration:none}}
)css";
}

}  // namespace normlab
