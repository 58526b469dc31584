# task: Write a short report sentence per project with str.format.
# expects: "Apollo      12.50 h   62.5 %\nGemini       7.50 h   37.5 %"
hours = {"Apollo": 12.5, "Gemini": 7.5}
total = sum(hours.values())
template = "{name:<10} {hours:>6.2f} h {share:>6.1f} %"

"\n".join(template.format(name=name, hours=h, share=100 * h / total) for name, h in hours.items())
