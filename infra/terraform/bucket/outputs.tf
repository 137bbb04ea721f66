output "arn" {
  description = "ARN of the bucket."
  value       = aws_s3_bucket.this.arn
}

output "key_arn" {
  description = "ARN of the key that encrypts it."
  value       = aws_kms_key.this.arn
}
