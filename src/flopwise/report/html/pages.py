"""A profile, a comparison and other reports as one page that needs no network and no other file."""

from flopwise.report.html.bound import render_bound as render_bound
from flopwise.report.html.compare import render_comparison as render_comparison
from flopwise.report.html.llm import render_llm as render_llm
from flopwise.report.html.model import render_profile as render_profile
from flopwise.report.html.page import render_sheets as render_sheets
from flopwise.report.html.trace import render_trace as render_trace
from flopwise.report.html.trace import render_traces as render_traces
from flopwise.report.html.zoo import render_zoo as render_zoo
