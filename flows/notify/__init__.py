"""What people are shown and told: alerts, webhook, automations, artifacts."""
