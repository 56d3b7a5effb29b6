"""The look of the page: plain, light or dark as the reader has it, and on paper with everything open."""

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --quiet: #57606a; --line: #d0d7de; --soft: #f6f8fa;
  --good: #116329; --warn: #7d4e00; --bad: #a40e26; --note: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --quiet: #9da7b1; --line: #30363d;
  --soft: #161b22; --good: #56d364; --warn: #e3b341; --bad: #ff8182; --note: #79c0ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { margin: 0; font-size: 1.6rem; } h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; margin: 0; }
h4 { font-size: .9rem; margin: .5rem 0 0; } p { margin: .3rem 0; } ul, ol { margin: .2rem 0; padding-left: 1.4rem; }
header, article { border-left: .35rem solid var(--line); background: var(--soft); padding: .8rem 1rem;
  margin: .6rem 0; }
header.good, article.good { border-color: var(--good); } header.warn, article.warn { border-color: var(--warn); }
header.bad, article.bad { border-color: var(--bad); } article.note { border-color: var(--note); }
header.good h1 { color: var(--good); } header.warn h1 { color: var(--warn); } header.bad h1 { color: var(--bad); }
.quiet { color: var(--quiet); font-size: .9rem; }
.badge { border: 1px solid; border-radius: .8rem; padding: 0 .5rem; font-size: .8rem; white-space: nowrap; }
.badge.good { color: var(--good); } .badge.warn { color: var(--warn); } .badge.bad { color: var(--bad); }
.badge.note { color: var(--note); }
code, pre { font: .9em/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { background: var(--back); border: 1px solid var(--line); padding: .4rem .6rem; margin: .3rem 0;
  white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: .2rem 0; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--text); font: 12px system-ui, sans-serif; }
svg .good { fill: var(--good); } svg .warn { fill: var(--warn); } svg .bad { fill: var(--bad); }
svg .bar { fill: var(--note); } svg line { stroke: var(--quiet); }
svg polyline { fill: none; stroke: var(--note); stroke-width: 1.5; }
:focus-visible { outline: 2px solid var(--note); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--back); padding: .5rem; }
@media print { :root { --back: #fff; --text: #000; --quiet: #444; --line: #999; --soft: #fff; --good: #116329;
  --warn: #7d4e00; --bad: #a40e26; --note: #0550ae; color-scheme: light; }
  main { max-width: none; } .scroll { overflow: visible; } article, tr { break-inside: avoid; } .skip { display: none; }
  details::details-content { content-visibility: visible; display: block; block-size: auto; } }
"""
