"""Results as text, HTML, figures and widgets."""
